//! [`Snapshot`]: what the store has, looked at now and then.

use std::cmp::Reverse;
use std::sync::{Arc, Weak};
use std::time::Duration;

use idem_core::admin::{RecordFilter, RecordSummary, SummaryState};
use idem_core::{Result, Timestamp};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::console::Console;
use crate::growth::{Growth, Point};
use crate::metrics::{Scraper, Traffic};

/// How many records one call of the store looks at.
const PAGE: u32 = 1_000;
/// How many records of a kind the overview lists.
pub(crate) const LISTED: usize = 10;
/// The distance of samples while nobody looks.
const IDLE: Duration = Duration::from_secs(60);
/// How long a page waits for a sample.
const PATIENCE: Duration = Duration::from_secs(10);

/// Ages of records in flight, up to these; the last group has no bound.
pub(crate) const AGES: [Duration; 4] = [
    Duration::from_secs(10),
    Duration::from_secs(60),
    Duration::from_secs(10 * 60),
    Duration::from_secs(60 * 60),
];

/// The store and its services at one instant.
#[derive(Clone)]
pub(crate) struct Snapshot {
    pub(crate) taken: Instant,
    /// Why there is nothing new of the store.
    pub(crate) error: Option<String>,
    pub(crate) records: Records,
    pub(crate) traffic: Option<(Traffic, usize)>,
    pub(crate) growth: Growth,
}

/// What a walk over the records has found.
#[derive(Debug, Clone, Default)]
pub(crate) struct Records {
    /// The store's clock at the end of the walk.
    pub(crate) at: Option<Timestamp>,
    pub(crate) looked_at: u64,
    /// Whether these are all records.
    pub(crate) is_complete: bool,
    counts: [u64; SummaryState::ALL.len()],
    /// Records in flight, stale ones included, by age.
    pub(crate) ages: [u64; AGES.len() + 1],
    /// Bytes of all results and checkpoints.
    pub(crate) bytes: u64,
    /// Bytes of those that are expired.
    pub(crate) expired_bytes: u64,
    /// The oldest in flight, stale ones included.
    pub(crate) in_flight: Vec<RecordSummary>,
    /// The latest that failed or cannot be read.
    pub(crate) failed: Vec<RecordSummary>,
}

impl Records {
    pub(crate) fn count(&self, state: SummaryState) -> u64 {
        let number = SummaryState::ALL.iter().position(|one| *one == state);
        number.map_or(0, |number| self.counts[number])
    }

    pub(crate) fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    fn add(&mut self, record: RecordSummary) {
        let number = SummaryState::ALL
            .iter()
            .position(|one| *one == record.state);
        if let Some(number) = number {
            self.counts[number] += 1;
        }
        self.at = self.at.max(Some(record.observed_at));
        self.bytes += record.result_bytes;
        match record.state {
            SummaryState::InFlight | SummaryState::Stale => {
                let age = record.age();
                let group = AGES.iter().position(|bound| age < *bound);
                self.ages[group.unwrap_or(AGES.len())] += 1;
                self.in_flight.push(record);
            }
            SummaryState::Failed | SummaryState::Unreadable => self.failed.push(record),
            SummaryState::Expired => self.expired_bytes += record.result_bytes,
            _ => {}
        }
    }

    fn shorten(&mut self) {
        self.in_flight.sort_by_key(|record| record.created_at);
        self.in_flight.truncate(LISTED);
        let failed_at = |record: &RecordSummary| record.sealed_at.unwrap_or(record.created_at);
        self.failed.sort_by_key(|record| Reverse(failed_at(record)));
        self.failed.truncate(LISTED);
    }

    async fn walk(console: &Console) -> Result<Self> {
        let admin = console.admin()?;
        let filter = RecordFilter::new();
        let most = console.options.most_looked_at;
        let mut records = Self::default();
        let mut cursor = None;
        loop {
            let left = most.saturating_sub(records.looked_at);
            let limit = u32::try_from(left).unwrap_or(PAGE).min(PAGE);
            if limit == 0 {
                return Ok(records);
            }
            let page = admin.list(&filter, cursor.as_ref(), limit).await?;
            records.looked_at += u64::from(page.looked_at);
            page.records.into_iter().for_each(|one| records.add(one));
            records.shorten();
            cursor = page.next;
            if cursor.is_none() {
                records.is_complete = true;
                return Ok(records);
            }
        }
    }
}

/// Takes samples until the console is gone: often while somebody looks, else once a minute.
pub(crate) async fn keep_sampling(console: Weak<Console>, wanted: Arc<Notify>) {
    let Some(urls) = console.upgrade().map(|it| it.options.metrics.clone()) else {
        return;
    };
    let mut scraper = Scraper::new(&urls);
    let mut growth = Growth::default();
    let mut records = Records::default();
    loop {
        let Some(here) = console.upgrade() else {
            return;
        };
        let began = Instant::now();
        let (walk, traffic) = tokio::join!(Records::walk(&here), scraper.scrape());
        let taken = Instant::now();
        let error = match walk {
            Ok(walked) => {
                records = walked;
                growth.add(Point {
                    at: taken,
                    records: records.total(),
                    bytes: records.bytes,
                });
                None
            }
            Err(error) => {
                tracing::warn!(%error, "the records cannot be listed");
                Some(error.to_string())
            }
        };
        here.latest.send_replace(Some(Arc::new(Snapshot {
            taken,
            error,
            records: records.clone(),
            traffic,
            growth: growth.clone(),
        })));
        let refresh = here.options.refresh;
        let is_watched = here.is_watched();
        drop(here);
        // As `purge_beside_traffic` does: a tenth of one connection's time.
        let least = refresh.max(began.elapsed() * 9);
        tokio::time::sleep(least).await;
        if !is_watched {
            let idle = IDLE.saturating_sub(least);
            tokio::select! {
                () = tokio::time::sleep(idle) => {}
                () = wanted.notified() => {}
            }
        }
    }
}

impl Console {
    /// Returns a sample that is not older than the interval of renewal, or the latest one where the
    /// store takes long; `None` if there is none yet.
    pub(crate) async fn snapshot(&self) -> Option<Arc<Snapshot>> {
        let is_fresh = |latest: &Option<Arc<Snapshot>>| {
            let latest = latest.as_ref();
            latest.is_some_and(|latest| latest.taken.elapsed() <= self.options.refresh)
        };
        let mut latest = self.latest.subscribe();
        if !is_fresh(&latest.borrow_and_update()) {
            self.wanted.notify_one();
            // In vain where the store takes long: then the page has the sample before.
            let _ = tokio::time::timeout(PATIENCE, latest.changed()).await;
        }
        latest.borrow().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use idem_core::{
        ClaimRequest, Failure, Fingerprint, IdempotencyStore, Key, MemoryStore, Response,
    };

    async fn console(most: u64) -> (Arc<MemoryStore>, Console) {
        let store = Arc::new(MemoryStore::new());
        for number in 0..30 {
            let key = Key::new("tenant", "pay", number.to_string()).unwrap();
            let request = ClaimRequest::new(key, Fingerprint::raw("body"));
            let claim = store.claim(&request).await.unwrap();
            let claim = claim.acquired().unwrap();
            let day = Duration::from_secs(86_400);
            match number % 3 {
                0 => {}
                1 => {
                    let response = Response::new(200, "paid");
                    store.complete(&claim, &response, day).await.unwrap();
                }
                _ => {
                    let failure = Failure::new("declined", "no");
                    store.fail(&claim, &failure, day).await.unwrap();
                }
            }
        }
        let options = crate::Options::new()
            .with_most_looked_at(most)
            .with_refresh(Duration::from_millis(100));
        let console = Console::new(store.clone(), options).unwrap();
        (store, console)
    }

    #[tokio::test]
    async fn a_walk_counts_all_records() {
        let (_, console) = console(10_000).await;
        let records = Records::walk(&console).await.unwrap();
        assert!(records.is_complete);
        assert_eq!((records.looked_at, records.total()), (30, 30));
        for state in [
            SummaryState::InFlight,
            SummaryState::Completed,
            SummaryState::Failed,
        ] {
            assert_eq!(records.count(state), 10);
        }
        assert_eq!(records.ages, [10, 0, 0, 0, 0]);
        assert_eq!((records.in_flight.len(), records.failed.len()), (10, 10));
        assert!(records.bytes > 0);
    }

    #[tokio::test]
    async fn a_walk_is_bounded_and_says_so() {
        let (_, console) = console(7).await;
        let records = Records::walk(&console).await.unwrap();
        assert!(!records.is_complete);
        assert_eq!(records.looked_at, 7);
    }

    #[tokio::test]
    async fn sampling_ends_with_the_console() {
        let (_, console) = console(10_000).await;
        let console = Arc::new(console);
        let wanted = Arc::clone(&console.wanted);
        let sampling = tokio::spawn(keep_sampling(Arc::downgrade(&console), wanted.clone()));
        assert!(console.snapshot().await.is_some());
        drop(console);
        wanted.notify_one();
        let ended = tokio::time::timeout(Duration::from_secs(30), sampling).await;
        ended.unwrap().unwrap();
    }
}
