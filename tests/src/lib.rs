#![doc = include_str!("../README.md")]
#![cfg_attr(test, allow(unused, reason = "for the cases"))]

mod batched;
pub mod cancel;
mod case;
// Unit tests run no case, and without the cases their program is compiled in half the time.
#[cfg(not(test))]
mod cases;
mod context;
mod crowd;
mod draw;
mod eventually;
mod expect;
mod failure;
pub mod faults;
mod harness;
pub mod history;
mod last_call;
pub mod migration;
pub mod mutants;
pub mod oracle;
mod profile;
mod protected;
pub mod proxy;
mod race;
pub mod remote;
mod report;
mod runner;
pub mod search;
pub mod secrets;
pub mod shrink;
pub mod spec;
mod states;
mod suite;
mod target;
mod watched;
pub mod worker;

pub use batched::Batched;
pub use case::{Case, CaseFuture, CaseResult};
pub use context::{Context, Settings};
pub use draw::drawn;
pub use failure::{CaseError, in_time};
pub use harness::{CallerTransaction, Harness, Product, with_password};
pub use profile::{Profile, Promise};
pub use protected::Protected;
pub use runner::main;
pub use states::{Expected, described};
pub use suite::{Outcome, Verdict, cases, run_all, run_case};
pub use target::{Missing, Target};

pub use async_trait::async_trait;
pub use idem_core;
