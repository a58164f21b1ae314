//! The client against real servers, and against servers that misbehave.

mod bodies;
mod expiry;
mod faults;
mod file;
mod intents;
mod limits;
mod presets;
mod restart;
mod servers;
mod store;
mod support;
mod tower_client;
