#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod client;
mod console;
mod form;
mod growth;
mod guard;
mod handles;
mod identity;
mod metrics;
mod options;
mod pages;
mod rate;
mod routes;
mod sample;
mod secret;
mod serve;
mod sessions;
mod text;

pub use metrics::unstored_answers;
pub use options::{Access, Options};
pub use routes::router;
pub use serve::{serve, serve_on};
