//! The router, without a network: who gets in, what may be changed, and what every answer has.

mod access;
mod answers;
mod browser;
mod changes;
mod reading;
