//! Applications with drivers of their own, whose rows commit with the store's records.
//!
//! [`driven`] makes one a target: it runs the cases of the suite that need a caller's transaction,
//! and those of [`CASES`], which are the same for every driver.

mod begun;
mod cases;
#[cfg(feature = "deadpool-postgres")]
mod deadpool_postgres;
#[cfg(feature = "diesel-mysql")]
mod diesel_mysql;
#[cfg(feature = "diesel-postgres")]
mod diesel_postgres;
mod engine;
#[cfg(feature = "mysql-async")]
mod mysql_async;
mod run_in;
#[cfg(feature = "rusqlite")]
mod rusqlite;
#[cfg(any(
    feature = "sea-orm-mysql",
    feature = "sea-orm-postgres",
    feature = "sea-orm-sqlite"
))]
mod sea_orm;
#[cfg(feature = "mysql")]
mod sqlx_mysql;
#[cfg(feature = "postgres")]
mod sqlx_postgres;
#[cfg(feature = "sqlite")]
mod sqlx_sqlite;
#[cfg(feature = "tokio-postgres")]
mod tokio_postgres;

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::fmt::{self, Debug};
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use idem_conformance::{CallerTransaction, Case, Context, Missing, Profile, Promise, Target};
use idem_core::{
    Advance, BoxError, Checkpoint, Claim, ClaimOutcome, ClaimRequest, Failure, IdempotencyStore,
    Key, Policy, Response, Result,
};

use crate::{Adapter, ServerUrl, Suite};

pub use begun::Begun;
pub use cases::CASES;
#[cfg(feature = "deadpool-postgres")]
pub use deadpool_postgres::DeadpoolPostgres;
#[cfg(feature = "diesel-mysql")]
pub use diesel_mysql::DieselMySql;
#[cfg(feature = "diesel-postgres")]
pub use diesel_postgres::DieselPostgres;
#[allow(unused_imports, reason = "for the drivers that are on")]
pub(crate) use engine::EngineIn;
pub use engine::{Body, Engine, Ran};
#[cfg(feature = "mysql-async")]
pub use mysql_async::MySqlAsync;
pub use run_in::RUN_IN_CASES;
#[cfg(feature = "rusqlite")]
pub use rusqlite::Rusqlite;
#[cfg(feature = "sea-orm-mysql")]
pub use sea_orm::SeaOrmMySql;
#[cfg(feature = "sea-orm-postgres")]
pub use sea_orm::SeaOrmPostgres;
#[cfg(feature = "sea-orm-sqlite")]
pub use sea_orm::SeaOrmSqlite;
#[cfg(feature = "mysql")]
pub use sqlx_mysql::SqlxMySql;
#[cfg(feature = "postgres")]
pub use sqlx_postgres::SqlxPostgres;
#[cfg(feature = "sqlite")]
pub use sqlx_sqlite::SqlxSqlite;
#[cfg(feature = "tokio-postgres")]
pub use tokio_postgres::TokioPostgres;

/// How much a transaction sees of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// The default of the driver's connection.
    Default,
    /// As if transactions ran one after the other.
    Serializable,
}

/// An application: it has connections of its driver, and a table of payments in the namespace.
#[async_trait]
pub trait Caller: Debug + Send + Sync {
    /// Does the work in one transaction. Commits after `Ok`, and rolls back after an error.
    async fn transact(&self, level: Level, work: &mut dyn Work) -> Result<(), BoxError>;

    /// Returns an engine on a clone of this caller's store, or on another store: as in a process of
    /// its own. `None` where the driver has no transactions for the engine.
    fn engine(
        &self,
        store: Option<Arc<dyn IdempotencyStore>>,
        policy: Policy,
        level: Level,
    ) -> Option<Arc<dyn Engine>> {
        let _ = (store, policy, level);
        None
    }

    /// Returns whether the store's crate says to repeat the transaction after this error.
    fn is_retryable(&self, error: &(dyn StdError + 'static)) -> bool;
}

/// The work of one transaction.
#[async_trait]
pub trait Work: Send {
    /// Does it.
    async fn run(&mut self, transaction: &mut dyn InTransaction) -> Result<(), BoxError>;
}

/// An open transaction of a driver, with the store's methods for it.
#[async_trait]
pub trait InTransaction: Send {
    /// Calls `claim_in`.
    async fn claim(&mut self, request: &ClaimRequest) -> Result<ClaimOutcome>;

    /// Calls `complete_in`.
    async fn complete(
        &mut self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()>;

    /// Calls `fail_in`.
    async fn fail(&mut self, claim: &Claim, failure: &Failure, retention: Duration) -> Result<()>;

    /// Calls `checkpoint_in`.
    async fn checkpoint(&mut self, claim: &Claim, checkpoint: &Checkpoint) -> Result<()>;

    /// Calls `advance_in`.
    async fn advance(&mut self, source: &Key, version: u64, retention: Duration)
    -> Result<Advance>;

    /// Inserts a payment, whose total is one more than the highest.
    async fn pay(&mut self, id: &str) -> Result<(), BoxError>;

    /// Runs another statement of the application's.
    async fn execute(&mut self, sql: &str) -> Result<(), BoxError>;

    /// Returns the text that a statement of the application's reads.
    async fn text(&mut self, sql: &str) -> Result<String, BoxError>;
}

/// The statements that an application sends with its driver.
#[allow(dead_code, reason = "for the drivers that are on")]
#[async_trait]
pub(crate) trait Driver: Send {
    /// Runs a statement.
    async fn execute(&mut self, sql: &str) -> Result<(), BoxError>;

    /// Returns the text in the only column of the only row.
    async fn text(&mut self, sql: &str) -> Result<String, BoxError>;
}

/// An open transaction, with the store for it.
#[allow(dead_code, reason = "for the drivers that are on")]
pub(crate) struct Open<'t, S, T> {
    pub(crate) store: &'t S,
    pub(crate) transaction: &'t mut T,
    pub(crate) payments: &'t str,
}

/// An application: its store, its table of payments, and its connections.
#[allow(dead_code, reason = "for the drivers that are on")]
pub(crate) struct Application<S, C> {
    pub(crate) store: S,
    pub(crate) payments: String,
    pub(crate) connections: C,
}

impl<S, C> fmt::Debug for Application<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Application").finish_non_exhaustive()
    }
}

/// Implements [`Caller`] for an application, and [`InTransaction`] for its transactions, which
/// begin so.
#[allow(unused_macros, reason = "for the drivers that are on")]
macro_rules! caller {
    (
        $store:ty, $type:ty, $is_retryable:path,
        |$connections:ident: $of:ty, $level:ident| $transaction:ident in { $($begin:tt)* }
        $(, engine: $transactions:expr)?
    ) => {
        #[async_trait::async_trait]
        impl crate::callers::Caller for crate::callers::Application<$store, $of> {
            async fn transact(
                &self,
                $level: crate::callers::Level,
                work: &mut dyn crate::callers::Work,
            ) -> Result<(), idem_core::BoxError> {
                let $connections = &self.connections;
                $($begin)*
                let mut open = crate::callers::Open {
                    store: &self.store,
                    transaction: &mut $transaction,
                    payments: &self.payments,
                };
                let done = work.run(&mut open).await;
                match done {
                    Ok(()) => $transaction.commit().await?,
                    Err(_) => $transaction.rollback().await?,
                }
                done
            }

            $(fn engine(
                &self,
                store: Option<std::sync::Arc<dyn idem_core::IdempotencyStore>>,
                policy: idem_core::Policy,
                $level: crate::callers::Level,
            ) -> Option<std::sync::Arc<dyn crate::callers::Engine>> {
                let $connections = &self.connections;
                let engine = crate::callers::EngineIn::new(
                    &self.store,
                    store,
                    policy,
                    $transactions,
                    &self.payments,
                );
                Some(std::sync::Arc::new(engine))
            })?

            fn is_retryable(&self, error: &(dyn std::error::Error + 'static)) -> bool {
                $is_retryable(error)
            }
        }

        crate::callers::in_transaction!($store, $type);
    };
}
#[allow(unused_imports, reason = "for the drivers that are on")]
use caller;

/// Implements [`Driver`] for a transaction of sqlx.
#[allow(unused_macros, reason = "for the drivers that are on")]
macro_rules! sqlx_driver {
    ($transaction:ty) => {
        #[async_trait::async_trait]
        impl crate::callers::Driver for $transaction {
            async fn execute(&mut self, sql: &str) -> Result<(), BoxError> {
                let sql = raw_sql(AssertSqlSafe(sql.to_owned()));
                sql.execute(&mut **self).await?;
                Ok(())
            }

            async fn text(&mut self, sql: &str) -> Result<String, BoxError> {
                let row = raw_sql(AssertSqlSafe(sql.to_owned())).fetch_one(&mut **self);
                Ok(row.await?.try_get_unchecked(0)?)
            }
        }
    };
}
#[allow(unused_imports, reason = "for the drivers that are on")]
use sqlx_driver;

/// Implements [`InTransaction`] for the store's methods on a driver's transaction.
#[allow(unused_macros, reason = "for the drivers that are on")]
macro_rules! in_transaction {
    ($store:ty, $transaction:ty) => {
        #[async_trait::async_trait]
        impl crate::callers::InTransaction for crate::callers::Open<'_, $store, $transaction> {
            async fn claim(
                &mut self,
                request: &idem_core::ClaimRequest,
            ) -> idem_core::Result<idem_core::ClaimOutcome> {
                self.store.claim_in(self.transaction, request).await
            }

            async fn complete(
                &mut self,
                claim: &idem_core::Claim,
                response: &idem_core::Response,
                retention: std::time::Duration,
            ) -> idem_core::Result<()> {
                let store = self.store;
                let completed = store.complete_in(self.transaction, claim, response, retention);
                completed.await
            }

            async fn fail(
                &mut self,
                claim: &idem_core::Claim,
                failure: &idem_core::Failure,
                retention: std::time::Duration,
            ) -> idem_core::Result<()> {
                let store = self.store;
                let failed = store.fail_in(self.transaction, claim, failure, retention);
                failed.await
            }

            async fn checkpoint(
                &mut self,
                claim: &idem_core::Claim,
                checkpoint: &idem_core::Checkpoint,
            ) -> idem_core::Result<()> {
                let stored = self
                    .store
                    .checkpoint_in(self.transaction, claim, checkpoint);
                stored.await
            }

            async fn advance(
                &mut self,
                source: &idem_core::Key,
                version: u64,
                retention: std::time::Duration,
            ) -> idem_core::Result<idem_core::Advance> {
                let store = self.store;
                let advanced = store.advance_in(self.transaction, source, version, retention);
                advanced.await
            }

            async fn pay(&mut self, id: &str) -> Result<(), idem_core::BoxError> {
                let sql = crate::callers::pay(self.payments, id);
                crate::callers::Driver::execute(self.transaction, &sql).await
            }

            async fn execute(&mut self, sql: &str) -> Result<(), idem_core::BoxError> {
                crate::callers::Driver::execute(self.transaction, sql).await
            }

            async fn text(&mut self, sql: &str) -> Result<String, idem_core::BoxError> {
                crate::callers::Driver::text(self.transaction, sql).await
            }
        }
    };
}

#[allow(unused_imports, reason = "for the drivers that are on")]
pub(crate) use in_transaction;

/// Returns the statement of a payment. It reads what other payments have written, so that under
/// SERIALIZABLE any two of them conflict.
#[allow(dead_code, reason = "for the drivers that are on")]
pub(crate) fn pay(payments: &str, id: &str) -> String {
    let total = "COALESCE(max(total), 0) + 1";
    format!("INSERT INTO {payments} SELECT '{id}', {total} FROM {payments}")
}

/// A database in which an application keeps its payments.
#[async_trait]
pub trait Shop: Adapter {
    /// Returns the name of the table of payments, which has no constraint that would hide a second
    /// row of one id.
    fn payments(namespace: &str) -> String;

    /// Returns a statement that sets how long a transaction waits for a lock, and one that reads it;
    /// `None` where there is no such setting.
    fn lock_wait() -> Option<(&'static str, &'static str)>;

    /// Statements that end the transaction in which they run; how many rows of before they commit,
    /// and how many of after are committed.
    const TRAPS: &'static [(&'static str, i64, i64)];

    /// Creates the table where it is missing.
    async fn open_shop(&self, namespace: &str) -> Result<(), BoxError>;

    /// Returns how many payments with this id were committed.
    async fn paid(&self, namespace: &str, id: &str) -> Result<i64, BoxError>;

    /// Returns how many payments were committed, and the highest total.
    async fn totals(&self, namespace: &str) -> Result<(i64, i64), BoxError>;
}

/// Makes callers.
#[async_trait]
pub trait Calls: Clone + Debug + Send + Sync + 'static {
    /// Whether the engine runs in transactions of this driver.
    const RUNS: bool = false;

    /// The database.
    type Base: Shop;

    /// Opens a caller with this many connections to the namespace, at another address if there is
    /// one.
    async fn open(
        &self,
        base: &Self::Base,
        namespace: &str,
        address: Option<SocketAddr>,
        connections: usize,
    ) -> Result<Arc<dyn Caller>, BoxError>;
}

/// Returns the URL of the base, at another address if there is one.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) fn url_of(
    base: &impl Adapter,
    address: Option<SocketAddr>,
) -> Result<ServerUrl, BoxError> {
    let url = base.url().ok_or("there is no server")?;
    Ok(address.map_or_else(|| url.clone(), |address| url.through(address)))
}

/// A database whose callers have a driver of their own.
#[derive(Debug, Clone)]
struct Driven<C: Calls> {
    calls: C,
    base: C::Base,
}

#[async_trait]
impl<C: Calls> Adapter for Driven<C> {
    type Store = <C::Base as Adapter>::Store;

    async fn product(&self) -> Result<(String, String), BoxError> {
        self.base.product().await
    }

    fn new_name(&self) -> String {
        self.base.new_name()
    }

    async fn create(&self, namespace: &str) -> Result<(), BoxError> {
        self.base.create(namespace).await
    }

    async fn store(&self, namespace: &str) -> Result<Self::Store, BoxError> {
        self.base.store(namespace).await
    }

    async fn destroy(&self, namespace: &str) -> Result<(), BoxError> {
        self.base.destroy(namespace).await
    }

    fn url(&self) -> Option<&ServerUrl> {
        self.base.url()
    }

    async fn begin(&self, namespace: &str) -> Result<Option<Box<dyn CallerTransaction>>, BoxError> {
        let caller = self.calls.open(&self.base, namespace, None, 1).await?;
        Ok(Some(Box::new(Begun::begin(caller, Level::Default))))
    }
}

/// Opens the callers of one target, for cases, which have no other way to them than its name.
#[async_trait]
trait Opens: Send + Sync {
    async fn open(
        &self,
        namespace: &str,
        address: Option<SocketAddr>,
        connections: usize,
    ) -> Result<Arc<dyn Caller>, BoxError>;

    async fn paid(&self, namespace: &str, id: &str) -> Result<i64, BoxError>;

    async fn totals(&self, namespace: &str) -> Result<(i64, i64), BoxError>;

    fn lock_wait(&self) -> Option<(&'static str, &'static str)>;

    fn traps(&self) -> &'static [(&'static str, i64, i64)];
}

#[async_trait]
impl<C: Calls> Opens for Driven<C> {
    async fn open(
        &self,
        namespace: &str,
        address: Option<SocketAddr>,
        connections: usize,
    ) -> Result<Arc<dyn Caller>, BoxError> {
        self.base.open_shop(namespace).await?;
        let (calls, base) = (&self.calls, &self.base);
        calls.open(base, namespace, address, connections).await
    }

    async fn paid(&self, namespace: &str, id: &str) -> Result<i64, BoxError> {
        self.base.paid(namespace, id).await
    }

    async fn totals(&self, namespace: &str) -> Result<(i64, i64), BoxError> {
        self.base.totals(namespace).await
    }

    fn lock_wait(&self) -> Option<(&'static str, &'static str)> {
        C::Base::lock_wait()
    }

    fn traps(&self) -> &'static [(&'static str, i64, i64)] {
        C::Base::TRAPS
    }
}

/// The cases of drivers whose transactions the engine runs in.
static ALL_CASES: LazyLock<Vec<Case>> = LazyLock::new(|| [CASES, RUN_IN_CASES].concat());

static TARGETS: Mutex<BTreeMap<&str, Arc<dyn Opens>>> = Mutex::new(BTreeMap::new());

fn opens(cx: &Context) -> Result<Arc<dyn Opens>, BoxError> {
    let name = cx.harness().name();
    let targets = TARGETS.lock().unwrap_or_else(PoisonError::into_inner);
    let opens = targets.get(name).ok_or("this target has no driver")?;
    Ok(Arc::clone(opens))
}

/// Creates the target of a driver: the suite's cases of callers' transactions, and [`CASES`].
pub fn driven<C: Calls>(
    name: &'static str,
    calls: C,
    base: impl Fn() -> Result<C::Base, Missing> + Send + Sync + 'static,
    profile: Profile,
) -> Target {
    let base = Arc::new(base);
    let target = Target::new(name, move || {
        let (calls, base, profile) = (calls.clone(), Arc::clone(&base), profile.clone());
        async move {
            let driven = Driven {
                calls,
                base: base()?,
            };
            let mut targets = TARGETS.lock().unwrap_or_else(PoisonError::into_inner);
            targets.insert(name, Arc::new(driven.clone()));
            Ok(Suite::new(name, driven, profile))
        }
    });
    let target = target.with_only(Promise::Transactions).with_cases(CASES);
    match C::RUNS {
        true => target.with_cases(&ALL_CASES).derived(),
        false => target.derived(),
    }
}
