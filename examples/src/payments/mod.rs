//! A payment provider, and customers that send until they get an answer, while the server is
//! killed.
//!
//! The endpoint is in `bin/payments.rs`; this module has everything around it.

mod customer;
mod gateway;
mod server;

pub use customer::{Customer, Story};
pub use gateway::{Gateway, charge};
pub use server::Server;

use serde::{Deserialize, Serialize};

/// A customer's request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The amount in cents.
    pub amount: u64,
    /// The currency, such as `EUR`.
    pub currency: String,
}

/// The answer to a customer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payment {
    /// The provider's number of the charge.
    pub charge: String,
    /// The amount in cents.
    pub amount: u64,
}
