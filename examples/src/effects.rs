//! [`Effects`]: a store, and beside it a ledger that shows when an effect happened twice.
//!
//! The stores are those of [`storm`](crate::storm). As there, an effect and its result commit
//! together: one transaction holds both, or, on Redis, the ledger accepts an idempotency key of its
//! own.

use std::process::Stdio;
use std::sync::Arc;

use idem_core::{BoxError, IdempotencyStore, Response, Work};
use tokio::process::Command;

use crate::storm::backend::{self, Backend, Entry, Settlement};
use crate::storm::probe::Probe;
use crate::storm::seat::Seat;

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
            effects.backend.create().await?;
        }
        Ok(effects)
    }

    async fn join(&self, name: &str) -> Result<Effects, BoxError> {
        let mut seat = Seat::choose(self.store.as_deref(), name, CONNECTIONS)?;
        if let Some(namespace) = &self.namespace {
            seat.location.namespace.clone_from(namespace);
        }
        let backend = backend::open(&seat.location).await?;
        Ok(Effects { backend, seat })
    }
}

/// A store and a ledger of effects. The ledger has no unique constraint: an effect that happens
/// twice has two rows. A method fails when the store cannot be used.
#[derive(Debug)]
pub struct Effects {
    backend: Box<dyn Backend>,
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
        effects.backend.create().await?;
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
        self.backend.store()
    }

    /// Returns the product, and where it runs.
    pub async fn product(&self) -> Result<String, BoxError> {
        let product = self.backend.product().await?;
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
        self.backend.settle(&settlement).await?;
        Ok(())
    }

    /// Only makes the effect happen: shows what goes wrong without a claim.
    pub async fn append(&self, id: &str) -> Result<(), BoxError> {
        self.backend.append(&entry(id)).await
    }

    /// Returns the ids of all effects, in the order in which they were written.
    pub async fn all(&self) -> Result<Vec<String>, BoxError> {
        let ledger = self.backend.ledger().await?;
        Ok(ledger.into_iter().map(|entry| entry.key).collect())
    }

    /// Removes everything that was not there before.
    pub async fn remove(self) -> Result<(), BoxError> {
        self.backend.remove().await?;
        drop(self.backend);
        self.seat.clear(false);
        Ok(())
    }
}

/// An effect without a claim.
fn entry(id: &str) -> Entry {
    Entry {
        key: id.to_owned(),
        ..Entry::default()
    }
}
