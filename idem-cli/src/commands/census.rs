//! [`Census`]: counts of a store's records, from its list.

use std::collections::BTreeMap;
use std::time::Duration;

use idem_core::admin::{RecordFilter, RecordSummary, SummaryState};
use idem_core::{RecordAdmin, Timestamp};

use crate::failure::Result;

const PAGE: u64 = 1_000;

/// The ages below which records are counted, and their titles; older ones come last.
pub(super) const AGES: [(Duration, &str); 4] = [
    (Duration::from_secs(60), "below 1 minute"),
    (Duration::from_secs(3_600), "below 1 hour"),
    (Duration::from_secs(24 * 3_600), "below 1 day"),
    (Duration::from_secs(7 * 24 * 3_600), "below 1 week"),
];

/// How far a list was read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seen {
    pub(super) looked_at: u64,
    pub(super) is_complete: bool,
}

/// Reads the records that match, page by page, until the store has looked at `most`.
pub(super) async fn pages(
    admin: &dyn RecordAdmin,
    filter: &RecordFilter,
    most: u64,
    mut each: impl FnMut(&RecordSummary),
) -> Result<Seen> {
    let (mut looked_at, mut cursor) = (0, None);
    loop {
        let left = most.saturating_sub(looked_at).min(PAGE);
        if left == 0 {
            break;
        }
        let limit = u32::try_from(left).unwrap_or(u32::MAX);
        let page = admin.list(filter, cursor.as_ref(), limit).await?;
        page.records.iter().for_each(&mut each);
        looked_at += u64::from(page.looked_at);
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    Ok(Seen {
        looked_at,
        is_complete: cursor.is_none() && most > 0,
    })
}

/// The counts of some records.
#[derive(Debug, Clone, Default)]
pub(super) struct Counts {
    states: BTreeMap<&'static str, u64>,
    pub(super) total: u64,
    pub(super) result_bytes: u64,
    /// Acquisitions and results since the instant that the census counts from.
    pub(super) claims: u64,
    pub(super) results: u64,
}

impl Counts {
    pub(super) fn of(&self, state: SummaryState) -> u64 {
        self.states.get(state.name()).copied().unwrap_or_default()
    }

    fn add(&mut self, record: &RecordSummary, since: Option<Timestamp>) {
        *self.states.entry(record.state.name()).or_default() += 1;
        self.total += 1;
        self.result_bytes += record.result_bytes;
        let is_new = |at: i64| since.is_some_and(|since| at > since.as_micros());
        // A token is the store's clock at the acquisition, at least.
        self.claims += u64::from(is_new(record.token.as_i64()));
        let sealed_at = record.sealed_at.map(Timestamp::as_micros);
        self.results += u64::from(sealed_at.is_some_and(is_new));
    }
}

/// All counts of one reading.
#[derive(Debug, Default)]
pub(super) struct Census {
    pub(super) all: Counts,
    pub(super) operations: BTreeMap<String, Counts>,
    pub(super) ages: [u64; AGES.len() + 1],
    pub(super) oldest_in_flight: Option<RecordSummary>,
    /// The store's clock when it answered last.
    pub(super) observed_at: Option<Timestamp>,
    pub(super) seen: Seen,
}

impl Census {
    /// Counts until the store has looked at `most` records, without audit entries. Rates count from
    /// `since`, an instant of the store's clock.
    pub(super) async fn take(
        admin: &dyn RecordAdmin,
        filter: &RecordFilter,
        most: u64,
        since: Option<Timestamp>,
    ) -> Result<Self> {
        let mut census = Self::default();
        let seen = pages(admin, filter, most, |record| census.add(record, since)).await?;
        census.seen = seen;
        Ok(census)
    }

    fn add(&mut self, record: &RecordSummary, since: Option<Timestamp>) {
        self.all.add(record, since);
        let operation = record.key.operation();
        match self.operations.get_mut(operation) {
            Some(counts) => counts.add(record, since),
            None => {
                let mut counts = Counts::default();
                counts.add(record, since);
                self.operations.insert(operation.to_owned(), counts);
            }
        }
        let age = record.age();
        let bucket = AGES.iter().position(|(limit, _)| age < *limit);
        if let Some(count) = self.ages.get_mut(bucket.unwrap_or(AGES.len())) {
            *count += 1;
        }
        self.observed_at = self.observed_at.max(Some(record.observed_at));
        let is_open = matches!(record.state, SummaryState::InFlight | SummaryState::Stale);
        let oldest = self.oldest_in_flight.as_ref();
        if is_open && oldest.is_none_or(|oldest| record.created_at < oldest.created_at) {
            self.oldest_in_flight = Some(record.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use idem_core::{ClaimRequest, Fingerprint, IdempotencyStore, Key, MemoryStore, Response};

    use super::*;

    async fn store() -> MemoryStore {
        let store = MemoryStore::new();
        for id in 0..5 {
            let operation = if id == 0 { "refund" } else { "pay" };
            let key = Key::new("tenant", operation, id.to_string()).unwrap();
            let claim = store
                .claim(&ClaimRequest::new(key, Fingerprint::raw("1")))
                .await
                .unwrap();
            let claim = claim.acquired().unwrap();
            if id > 2 {
                let response = Response::new(200, "12345");
                store
                    .complete(&claim, &response, Duration::from_secs(60))
                    .await
                    .unwrap();
            }
        }
        store
    }

    #[tokio::test]
    async fn records_are_counted_by_state_and_operation_up_to_a_bound() {
        let store = store().await;
        let admin = store.admin().unwrap();
        let census = Census::take(admin, &RecordFilter::new(), 100, None)
            .await
            .unwrap();
        assert!(census.seen.is_complete);
        assert_eq!((census.all.total, census.seen.looked_at), (5, 5));
        assert_eq!(census.all.of(SummaryState::InFlight), 3);
        assert_eq!(census.operations["pay"].of(SummaryState::Completed), 2);
        assert_eq!(census.ages, [5, 0, 0, 0, 0]);
        assert_eq!(census.oldest_in_flight.unwrap().key.operation(), "refund");
        assert_eq!((census.all.claims, census.all.results), (0, 0));
        let since = Some(Timestamp::from_micros(0));
        let census = Census::take(admin, &RecordFilter::new(), 100, since)
            .await
            .unwrap();
        assert_eq!((census.all.claims, census.all.results), (5, 2));
        let bounded = Census::take(admin, &RecordFilter::new(), 2, None).await;
        let census = bounded.unwrap();
        assert_eq!((census.seen.looked_at, census.seen.is_complete), (2, false));
    }
}
