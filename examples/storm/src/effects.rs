//! [`Effects`]: a store, and beside it a ledger that shows when an effect happened twice.
//!
//! The stores are those of [`storm`](crate::storm). As there, an effect and its result commit
//! together: one transaction holds both, or, on Redis, the ledger accepts an idempotency key of its
//! own.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::Arc;

use idem_core::{BoxError, IdempotencyStore, Key, Record, Response, Work};
use tokio::process::Command;

use crate::report::Report;
use crate::storm::backend::{self, Entry, Opened, Settlement};
use crate::storm::seat::Seat;
use crate::storm::worker::Probe;

/// The most connections of a process to a server.
const CONNECTIONS: u32 = 8;

/// Options that name the store.
#[derive(Debug, Clone, clap::Args)]
pub struct StoreArgs {
    /// Where records and effects are stored: the URLs of `storm`. Default: a SQLite file in a
    /// temporary folder
    #[arg(long, value_name = "URL")]
    store: Option<String>,

    /// The tables or keys of the process that started this one
    #[arg(long, hide = true, requires = "store")]
    namespace: Option<String>,
}

impl StoreArgs {
    /// Creates tables or keys whose names begin with `name`; a process that
    /// [`Effects::process`] has started uses those of its parent.
    pub async fn open(&self, name: &str) -> Result<Effects, BoxError> {
        let effects = self.join(name).await?;
        if self.namespace.is_none() {
            effects.opened.backend.create().await?;
        }
        Ok(effects)
    }

    async fn join(&self, name: &str) -> Result<Effects, BoxError> {
        let mut seat = Seat::choose(self.store.as_deref(), name, CONNECTIONS)?;
        if let Some(namespace) = &self.namespace {
            seat.location.namespace.clone_from(namespace);
        }
        let opened = backend::open(&seat.location).await?;
        Ok(Effects { opened, seat })
    }
}

/// A store and a ledger of effects. The ledger has no unique constraint: an effect that happens
/// twice has two rows. A method fails when the store cannot be used.
#[derive(Debug)]
pub struct Effects {
    opened: Opened,
    seat: Seat,
}

impl Effects {
    /// Opens tables or keys that begin with `namespace` in this store, and creates missing ones;
    /// they stay.
    pub async fn open(url: &str, namespace: &str) -> Result<Self, BoxError> {
        let args = StoreArgs {
            store: Some(url.to_owned()),
            namespace: Some(namespace.to_owned()),
        };
        let effects = args.join(namespace).await?;
        effects.opened.backend.create().await?;
        Ok(effects)
    }

    /// Returns a command that runs this program again, on the same store. The process is killed
    /// when its handle is dropped.
    pub fn process(&self) -> Result<Command, BoxError> {
        let location = &self.seat.location;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--store", &location.url, "--namespace", &location.namespace]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.kill_on_drop(true);
        Ok(command)
    }

    /// Returns the prefix of the tables or keys.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.seat.location.namespace
    }

    /// Returns the store.
    #[must_use]
    pub fn store(&self) -> Arc<dyn IdempotencyStore> {
        Arc::clone(&self.opened.store)
    }

    /// Returns the product, and where it runs.
    pub async fn product(&self) -> Result<String, BoxError> {
        let product = self.opened.product().await?;
        Ok(format!("{product} ({})", self.seat.shown))
    }

    /// Makes the effect happen and completes the work's claim with the response: both or neither.
    /// Fails when the effect is not known to have happened; the claim may be lost.
    pub async fn commit(&self, work: &Work, id: &str, response: Response) -> Result<(), BoxError> {
        let claim = work.claim().ok_or("the work has no claim")?;
        let settlement = Settlement {
            entry: entry(id).under(&claim),
            claim,
            response,
            probe: Probe::default(),
        };
        self.opened.backend.settle(&settlement).await?;
        Ok(())
    }

    /// Only makes the effect happen: shows what goes wrong without a claim.
    pub async fn append(&self, id: &str) -> Result<(), BoxError> {
        self.opened.backend.append(&entry(id)).await
    }

    /// Returns the ids of all effects, in the order in which they were written.
    pub async fn all(&self) -> Result<Vec<String>, BoxError> {
        let ledger = self.opened.backend.ledger().await?;
        Ok(ledger.into_iter().map(|entry| entry.key).collect())
    }

    /// Compares messages with their records and effects, which have the same ids. Each message is
    /// completed and had one effect, or it is poison, failed and had none. Adds what it finds to
    /// the report; `done` says what an effect is, such as `shipped`.
    pub async fn audit(
        &self,
        report: &mut Report,
        done: &str,
        messages: Vec<(Key, bool)>,
    ) -> Result<(), BoxError> {
        let (store, effects) = (self.store(), self.all().await?);
        let (mut completed, mut taken_over) = (0, 0);
        let mut failures: BTreeMap<String, u64> = BTreeMap::new();
        for (key, is_poison) in &messages {
            let times = effects.iter().filter(|id| *id == key.id()).count();
            let state = match (is_poison, store.get(key).await?, times) {
                (false, Some(Record::Completed(record)), 1) => {
                    completed += 1;
                    taken_over += u64::from(record.info.attempts > 1);
                    continue;
                }
                (true, Some(Record::Failed(record)), 0) => {
                    let code = record.failure.code().to_owned();
                    *failures.entry(code).or_default() += 1;
                    continue;
                }
                (_, None, _) => "free",
                (_, Some(Record::InFlight(_)), _) => "in flight",
                (_, Some(Record::Completed(_)), _) => "completed",
                (_, Some(Record::Failed(_)), _) => "failed",
            };
            let poison = if *is_poison { " (poison)" } else { "" };
            let id = key.id();
            report.wrong(format!(
                "{id}{poison} is {state} and was {done} {times} times"
            ));
        }
        let is_known = |id: &&String| messages.iter().any(|(key, _)| key.id() == **id);
        for id in effects.iter().filter(|id| !is_known(id)) {
            report.wrong(format!("{id} was {done} and never requested"));
        }
        report.count(done, completed, "once each");
        if taken_over > 0 {
            report.count("taken over", taken_over, "of them, from a dead process");
        }
        for (code, times) in failures {
            report.count("failed", times, &format!("recorded as {code}"));
        }
        Ok(())
    }

    /// Removes everything that was not there before.
    pub async fn remove(&self) -> Result<(), BoxError> {
        self.opened.remove().await
    }
}

/// An effect without a claim.
fn entry(id: &str) -> Entry {
    Entry {
        key: id.to_owned(),
        ..Entry::default()
    }
}
