//! [`Order`]: a message.

use idem_core::{Key, Result};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};

/// The outcome of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// It is shipped.
    Plain,
    /// It is shipped after enough deliveries.
    Flaky,
    /// It cannot be shipped, which is known at once.
    Nonsense,
    /// It kills its consumer.
    Killer,
}

impl Kind {
    /// Returns whether it ends as failed.
    pub(crate) fn is_poison(self) -> bool {
        matches!(self, Self::Nonsense | Self::Killer)
    }
}

/// An order to ship.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Order {
    /// The id that the customer sends; the same when the order is published twice.
    pub(crate) id: String,
    /// The outcome of the order.
    pub(crate) kind: Kind,
    /// How long shipping takes.
    pub(crate) millis: u64,
    /// How often it is published.
    #[serde(skip, default)]
    pub(crate) times: u32,
}

impl Order {
    /// Returns the message's key.
    pub(crate) fn key(&self) -> Result<Key> {
        Key::new("shop", "orders.ship", &self.id)
    }
}

/// Draws `count` orders, one of them a killer; the same seed gives the same orders.
pub(crate) fn orders(count: u32, seed: u64) -> Vec<Order> {
    let mut rng = StdRng::seed_from_u64(seed);
    let killer = rng.random_range(1..=count.max(1));
    let order = |number| Order {
        id: format!("order-{number:04}"),
        kind: match rng.random_range(0..20) {
            _ if number == killer => Kind::Killer,
            0 => Kind::Nonsense,
            1 | 2 => Kind::Flaky,
            _ => Kind::Plain,
        },
        millis: rng.random_range(5..120),
        times: 1 + u32::from(rng.random_ratio(1, 3)),
    };
    (1..=count).map(order).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_orders_with_one_killer() {
        let all = orders(200, 5);
        assert_eq!(all, orders(200, 5));
        let killers = all.iter().filter(|order| order.kind == Kind::Killer);
        assert_eq!(killers.count(), 1);
        assert!(all.iter().any(|order| order.times == 2));
        assert!(all.iter().any(|order| order.kind == Kind::Nonsense));
    }
}
