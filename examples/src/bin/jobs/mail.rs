//! [`Mail`]: a job.

use idem_core::{Key, Result};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};

/// A mail to send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mail {
    /// The order of the mail; each order has one mail.
    pub(crate) order: String,
    /// The recipient; a mail to an address without `@` always fails.
    pub(crate) to: String,
}

impl Mail {
    /// Returns the job's key: sender, intent and order.
    pub(crate) fn key(&self) -> Result<Key> {
        Key::new("shop", "mail.receipt", &self.order)
    }

    /// Returns whether it can be sent.
    pub(crate) fn has_address(&self) -> bool {
        self.to.contains('@')
    }
}

/// Draws `count` mails, and the order in which they are pushed, each one to three times. The same
/// seed gives the same mails.
pub(crate) fn mails(count: u32, seed: u64) -> (Vec<Mail>, Vec<Mail>) {
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
