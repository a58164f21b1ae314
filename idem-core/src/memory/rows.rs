//! The rows of a shard by key.

use hashbrown::HashTable;
use hashbrown::hash_table::{Entry, OccupiedEntry};

use super::row::Row;
use crate::{Key, Timestamp};

/// A key with its hash, which is computed once per call and is as good as random to the caller that
/// chose the key.
#[derive(Debug, Clone, Copy)]
pub(super) struct HashedKey<'a> {
    pub(super) key: &'a Key,
    pub(super) hash: u64,
}

/// Each row is one allocation; the table holds its pointer and the hash, so that it grows without
/// reading rows.
#[derive(Debug, Clone, Default)]
pub(super) struct Rows(HashTable<Slot>);

#[derive(Debug, Clone)]
struct Slot {
    hash: u64,
    row: Box<Row>,
}

impl Slot {
    fn is_at(&self, key: HashedKey<'_>) -> bool {
        self.hash == key.hash && self.row.key == *key.key
    }
}

impl Rows {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn get(&self, key: HashedKey<'_>) -> Option<&Row> {
        let slot = self.0.find(key.hash, |slot| slot.is_at(key))?;
        Some(&slot.row)
    }

    pub(super) fn get_mut(&mut self, key: HashedKey<'_>) -> Option<&mut Row> {
        let slot = self.0.find_mut(key.hash, |slot| slot.is_at(key))?;
        Some(&mut slot.row)
    }

    /// Stores the row in place of an older one, whose queue entries it keeps.
    pub(super) fn put(&mut self, key: HashedKey<'_>, mut row: Box<Row>) -> &mut Row {
        let (is_at, hash) = (|slot: &Slot| slot.is_at(key), |slot: &Slot| slot.hash);
        let slot = match self.0.entry(key.hash, is_at, hash) {
            Entry::Occupied(old) => {
                let slot = old.into_mut();
                row.expiry_queued = slot.row.expiry_queued;
                row.lease_queued = slot.row.lease_queued;
                slot.row = row;
                slot
            }
            Entry::Vacant(vacant) => vacant
                .insert(Slot {
                    hash: key.hash,
                    row,
                })
                .into_mut(),
        };
        &mut slot.row
    }

    /// Returns the rows, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Row> {
        self.0.iter().map(|slot| &*slot.row)
    }

    /// Returns the row that an entry of a queue stands for: of those with this hash, rarely more
    /// than one, the row that knows the entry.
    pub(super) fn find(&mut self, hash: u64, is_it: impl Fn(&Row) -> bool) -> Option<Found<'_>> {
        self.0
            .find_entry(hash, |slot| slot.hash == hash && is_it(&slot.row))
            .ok()
            .map(Found)
    }

    /// Returns the entries of a rebuilt queue.
    pub(super) fn entries(
        &self,
        queued: impl Fn(&Row) -> Timestamp,
    ) -> impl Iterator<Item = (Timestamp, u64)> {
        self.0
            .iter()
            .map(move |slot| (queued(&slot.row), slot.hash))
    }
}

/// A row to change or remove.
#[derive(Debug)]
pub(super) struct Found<'a>(OccupiedEntry<'a, Slot>);

impl Found<'_> {
    pub(super) fn row(&mut self) -> &mut Row {
        &mut self.0.get_mut().row
    }

    pub(super) fn remove(self) {
        drop(self.0.remove());
    }
}
