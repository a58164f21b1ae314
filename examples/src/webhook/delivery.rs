//! [`Delivery`]: the sender's actions, drawn before it begins.

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

/// One sending of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery {
    /// The index of the event.
    pub event: usize,
    /// Whether its signer does not know the secret.
    pub is_forged: bool,
    /// After how many microseconds the sender disconnects, if it does; it then sends again.
    pub hangs_up: Option<u64>,
}

/// All deliveries, in order.
#[derive(Debug, Clone)]
pub struct Copies(pub Vec<Delivery>);

/// One in this many deliveries is forged, too.
const FORGED: u32 = 10;
/// One in this many senders disconnects.
const HANGS_UP: u32 = 12;

impl Copies {
    /// Draws one to four deliveries of each event, shuffled; the same seed gives the same
    /// deliveries.
    #[must_use]
    pub fn draw(events: usize, seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut deliveries = Vec::new();
        for event in 0..events {
            for _ in 0..rng.random_range(1..=4) {
                let hangs_up = rng.random_ratio(1, HANGS_UP);
                deliveries.push(Delivery {
                    event,
                    is_forged: false,
                    hangs_up: hangs_up.then(|| rng.random_range(0..4_000)),
                });
                if rng.random_ratio(1, FORGED) {
                    deliveries.push(Delivery {
                        event,
                        is_forged: true,
                        hangs_up: None,
                    });
                }
            }
        }
        deliveries.shuffle(&mut rng);
        Self(deliveries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_delivered_and_a_seed_repeats_it() {
        let Copies(deliveries) = Copies::draw(50, 7);
        for event in 0..50 {
            let genuine = |delivery: &&Delivery| delivery.event == event && !delivery.is_forged;
            assert!((1..=4).contains(&deliveries.iter().filter(genuine).count()));
        }
        assert_eq!(deliveries, Copies::draw(50, 7).0);
        assert_ne!(deliveries, Copies::draw(50, 8).0);
    }
}
