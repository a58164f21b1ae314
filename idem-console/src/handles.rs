//! [`Handles`]: names for keys that pages may carry.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use idem_core::Key;

use crate::secret::Secret;

/// Most handles of one generation; the last two generations are known.
const GENERATION: usize = 10_000;

/// Gives each key a handle, which nobody can guess and no other process knows.
///
/// A key itself would end up in logs and histories. A handle that has been forgotten names
/// nothing: the page says to list the records again.
#[derive(Default)]
pub(crate) struct Handles {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    young: HashMap<String, Key>,
    old: HashMap<String, Key>,
}

impl Handles {
    pub(crate) fn of(&self, secret: &Secret, key: &Key) -> String {
        let handle = secret.sign("record", key.path().as_bytes());
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.young.contains_key(&handle) {
            if known.young.len() >= GENERATION {
                known.old = std::mem::take(&mut known.young);
            }
            known.young.insert(handle.clone(), key.clone());
        }
        handle
    }

    /// Returns the key that has got this handle.
    pub(crate) fn key(&self, handle: &str) -> Option<Key> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let key = known.young.get(handle).or_else(|| known.old.get(handle));
        key.cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: usize) -> Key {
        Key::new("tenant", "pay", id.to_string()).unwrap()
    }

    #[test]
    fn a_handle_leads_back_to_its_key_and_cannot_be_forged() {
        let (handles, secret) = (Handles::default(), Secret::random().unwrap());
        let handle = handles.of(&secret, &key(1));
        assert_eq!(handle, handles.of(&secret, &key(1)));
        assert_ne!(handle, handles.of(&secret, &key(2)));
        assert_eq!(handles.key(&handle), Some(key(1)));
        let forged = Secret::random()
            .unwrap()
            .sign("record", key(1).path().as_bytes());
        assert_eq!(handles.key(&forged), None);
    }

    #[test]
    fn the_number_of_handles_is_bounded() {
        let (handles, secret) = (Handles::default(), Secret::random().unwrap());
        let first = handles.of(&secret, &key(0));
        for id in 1..=2 * GENERATION {
            handles.of(&secret, &key(id));
        }
        assert_eq!(handles.key(&first), None);
        let known = handles.known.lock().unwrap();
        assert!(known.young.len() + known.old.len() <= 2 * GENERATION);
    }
}
