//! The middleware, as a client sees it.
//!
//! The rules are those of `idem-http`, so the tests of its rules are the same files, with the
//! support of this crate.

#![allow(
    clippy::future_not_send,
    reason = "actix runs each request on one thread"
)]

#[path = "../../../idem-http/tests/http/draft.rs"]
mod draft;
#[path = "../../../idem-http/tests/http/engine.rs"]
mod engine;
#[path = "../../../idem-http/tests/http/keys.rs"]
mod keys;
#[path = "../../../idem-http/tests/http/policies.rs"]
mod policies;
#[path = "../../../idem-http/tests/http/replays.rs"]
mod replays;
#[path = "../../../idem-http/tests/http/scopes.rs"]
mod scopes;
#[path = "../../../idem-http/tests/http/shared.rs"]
mod shared;
#[path = "../../../idem-http/tests/http/statuses.rs"]
mod statuses;

mod extensions;
mod failures;
mod faults;
mod limits;
mod loopback;
mod passing;
mod routes;
mod support;
