#![doc = include_str!("../README.md")]
#![allow(
    clippy::future_not_send,
    reason = "actix runs each request on one thread"
)]

mod answer;
mod body;
mod convert;
mod handler;
mod handover;
mod incoming;
mod middleware;
mod scope;
mod service;

pub use answer::AnswerBody;
pub use body::BrokenBody;
pub use middleware::IdempotencyMiddleware;
pub use scope::RequestScope;
pub use service::IdempotencyService;
