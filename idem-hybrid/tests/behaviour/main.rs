//! What the store does over a memory store and caches that misbehave at will.

#[path = "../contract/mod.rs"]
mod contract;

mod batches;
mod breaker;
mod caches;
mod capabilities;
mod faults;
mod fixture;
mod gate;
mod hits;
mod invalidation;
mod operator;
mod together;
