//! The layer, as a client sees it.

mod clients;
mod contents;
mod cors;
#[cfg(feature = "diff")]
mod differences;
mod documentation;
mod documents;
mod draft;
mod engine;
mod faults;
mod first_sent;
mod grpc;
mod json_rpc;
mod keys;
mod layers;
mod limits;
mod loopback;
mod passing;
mod policies;
mod presets;
mod proxies;
mod raw;
mod replays;
mod routes;
mod scopes;
mod shared;
mod statuses;
mod store;
mod streams;
mod support;
mod transactions;
mod transcripts;
