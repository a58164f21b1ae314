//! A payment provider, and customers who send again until they are answered, while somebody kills
//! the server.
//!
//! The endpoint is in `bin/payments.rs`; here is what is around it.

mod customer;
mod gateway;
mod server;

pub use customer::{Customer, Story};
pub use gateway::{Gateway, charge};
pub use server::Server;

use serde::{Deserialize, Serialize};

/// What a customer asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// In cents.
    pub amount: u64,
    /// Such as `EUR`.
    pub currency: String,
}

/// What a customer gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payment {
    /// The provider's number.
    pub charge: String,
    /// In cents.
    pub amount: u64,
}
