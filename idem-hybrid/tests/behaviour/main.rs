//! The store over a memory store, with caches that misbehave on request.

#[path = "../contract/mod.rs"]
mod contract;

mod batches;
mod breaker;
mod caches;
mod capabilities;
mod faults;
mod fixture;
mod forced;
mod gate;
mod hits;
mod invalidation;
mod operator;
mod together;
