//! A server that speaks MongoDB's protocol, for machines without MongoDB: no package registry has
//! it.
//!
//! It is a program under the GPL. Nothing here links to it or depends on it: it is built once from
//! the Rust registry, outside this workspace, and started as a separate process.

use crate::Server;
use crate::built::Built;
use crate::mongo::{self, is_ready, probe};

pub(crate) const BUILT: Built = Built {
    name: "secantus",
    package: "secantus-mdb@0.5.3-beta.193",
    features: "--no-default-features --features bin",
    tools: &[("cmake", "cmake"), ("cc", "gcc"), ("c++", "g++")],
    reason: "for lack of a mongod: some six minutes",
};

pub(crate) const SERVER: Server = Server {
    product: "secantusd (MongoDB-compatible)",
    cached: Some("secantus/bin"),
    programs: &["secantusd-rs"],
    url: mongo::URL,
    arguments: "--host 127.0.0.1 --port {port} --storage-path {folder}/data \
                --cache-size 256M --log-level WARNING",
    durable: "--sync-on-commit",
    is_ready,
    ..Server::new("mongo", probe)
};
