//! [`Mail`]: a job.

use idem_core::{Key, Result};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};

/// A mail to be sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mail {
    /// The order that it is about: one mail each.
    pub order: String,
    /// To whom; nobody can send one to an address without `@`.
    pub to: String,
}

impl Mail {
    /// The job's key: who, what, and about which order.
    ///
    /// # Errors
    ///
    /// When the order's id is none for a key.
    pub fn key(&self) -> Result<Key> {
        Key::new("shop", "mail.receipt", &self.order)
    }

    /// Whether it can be sent.
    #[must_use]
    pub fn has_address(&self) -> bool {
        self.to.contains('@')
    }
}

/// So many mails, and the same in the order in which they are pushed, each one to three times. The
/// same ones for the same seed.
#[must_use]
pub fn mails(count: u32, seed: u64) -> (Vec<Mail>, Vec<Mail>) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mail = |number| Mail {
        order: format!("order-{number:04}"),
        to: match rng.random_ratio(1, 15) {
            true => "somebody".to_owned(),
            false => format!("customer-{}@example.org", rng.random_range(1..1000)),
        },
    };
    let mails: Vec<Mail> = (1..=count).map(mail).collect();
    let mut pushed = Vec::new();
    for mail in &mails {
        for _ in 0..rng.random_range(1..=3) {
            pushed.push(mail.clone());
        }
    }
    pushed.shuffle(&mut rng);
    (mails, pushed)
}

#[cfg(test)]
mod tests {
    use super::mails;

    #[test]
    fn every_mail_is_pushed_and_a_seed_repeats_it() {
        let (all, pushed) = mails(60, 3);
        assert!(all.iter().all(|mail| pushed.contains(mail)));
        assert!(pushed.len() > all.len());
        assert_eq!(mails(60, 3), (all, pushed));
    }
}
