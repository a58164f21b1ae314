//! [`Profile`]: the promises of a backend, and its time-outs.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// A promise that not every backend makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Promise {
    /// Other processes of the machine can open a namespace.
    SharedBetweenProcesses,
    /// A process can open a namespace after the process that had it open has ended, or was killed.
    OneProcessAtATime,
    /// An acknowledged completion outlives the death of every process that embeds the store.
    Durable,
    /// A clock other than the client's decides about expiry: a client with a wrong clock changes
    /// nothing, except by the [`clock_skew`](Profile::clock_skew) of a profile that has one.
    ServerClock,
    /// Clients reach the store over TCP, so that a proxy can be put in between.
    Network,
    /// Batches: the harness opens a [`BatchStore`](idem_core::BatchStore).
    Batch,
    /// The last checkpoint of each claim, with
    /// [`IdempotencyStore::checkpoints`](idem_core::IdempotencyStore::checkpoints).
    Checkpoints,
    /// The latest version of each source, with
    /// [`IdempotencyStore::watermarks`](idem_core::IdempotencyStore::watermarks).
    Watermarks,
    /// Lists of records and forced steps, with
    /// [`IdempotencyStore::admin`](idem_core::IdempotencyStore::admin).
    Admin,
    /// Records are claimed and completed in a caller's transaction: the harness begins one.
    Transactions,
    /// An open transaction that holds one key keeps no other key waiting.
    RowLocks,
    /// The harness can damage a stored result: [`Harness::damage`](crate::Harness::damage).
    Damage,
    /// Its client logs in with a password:
    /// [`Harness::open_with_password`](crate::Harness::open_with_password).
    Password,
    /// Expired records stay until `delete_expired` deletes them, so that its counts are exact.
    /// Every profile promises it, except a [`self_expiring`](Profile::self_expiring) one.
    ExactPurge,
    /// A promise of the machine, not the backend: libfaketime, which gives a program a false time.
    FakeTime,
}

/// Where Debian and Ubuntu install libfaketime.
const LIBFAKETIME: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";

impl Promise {
    /// Returns why a case that needs this is ignored.
    #[must_use]
    pub fn reason(self) -> String {
        match self {
            Self::FakeTime => format!("not installed: {self} (Debian, Ubuntu: faketime)"),
            _ => format!("not promised: {self}"),
        }
    }
}

/// Returns the path of the library, if it is installed; `IDEM_FAKETIME` names another path.
pub(crate) fn libfaketime() -> Option<PathBuf> {
    let path = std::env::var_os("IDEM_FAKETIME").map_or_else(|| LIBFAKETIME.into(), PathBuf::from);
    path.exists().then_some(path)
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SharedBetweenProcesses => "shared between processes",
            Self::OneProcessAtATime => "one process at a time",
            Self::Durable => "durable",
            Self::ServerClock => "server clock",
            Self::Network => "network",
            Self::Batch => "batch",
            Self::Checkpoints => "checkpoints",
            Self::Watermarks => "watermarks",
            Self::Admin => "admin",
            Self::Transactions => "transactions",
            Self::RowLocks => "row locks",
            Self::Damage => "damage",
            Self::Password => "a password",
            Self::ExactPurge => "exact purge",
            Self::FakeTime => "libfaketime",
        })
    }
}

/// The promises of a backend, with suitable sizes and times.
#[derive(Debug, Clone)]
pub struct Profile {
    promises: BTreeSet<Promise>,
    max_result_bytes: usize,
    shortest_lease: Duration,
    measures_lease: bool,
    max_wait: Duration,
    clock_tick: Duration,
    clock_skew: Duration,
    asks_again: bool,
    caches: bool,
    slots_per_core: Option<usize>,
}

impl Profile {
    /// Promises only what every store has to keep: results up to 1 MiB, leases of 60 ms that are
    /// sure to end, and 30 s of waiting.
    #[must_use]
    pub fn new() -> Self {
        Self {
            promises: BTreeSet::from([Promise::ExactPurge]),
            max_result_bytes: 1 << 20,
            shortest_lease: Duration::from_millis(60),
            measures_lease: false,
            max_wait: Duration::from_secs(30),
            clock_tick: Duration::from_micros(1),
            clock_skew: Duration::ZERO,
            asks_again: false,
            caches: false,
            slots_per_core: None,
        }
    }

    /// Promises [`Promise::SharedBetweenProcesses`], and so [`Promise::OneProcessAtATime`].
    #[must_use]
    pub fn shared_between_processes(self) -> Self {
        let alone = self.one_process_at_a_time();
        alone.promising(Promise::SharedBetweenProcesses)
    }

    /// Promises [`Promise::OneProcessAtATime`]: with [`durable`](Self::durable), for an embedded
    /// store that only one process can have open.
    #[must_use]
    pub fn one_process_at_a_time(self) -> Self {
        self.promising(Promise::OneProcessAtATime)
    }

    /// Promises [`Promise::Durable`].
    #[must_use]
    pub fn durable(self) -> Self {
        self.promising(Promise::Durable)
    }

    /// Promises [`Promise::ServerClock`].
    #[must_use]
    pub fn server_clock(self) -> Self {
        self.promising(Promise::ServerClock)
    }

    /// Promises [`Promise::Network`].
    #[must_use]
    pub fn network(self) -> Self {
        self.promising(Promise::Network)
    }

    /// Promises [`Promise::Batch`].
    #[must_use]
    pub fn batch(self) -> Self {
        self.promising(Promise::Batch)
    }

    /// Promises [`Promise::Checkpoints`].
    #[must_use]
    pub fn checkpoints(self) -> Self {
        self.promising(Promise::Checkpoints)
    }

    /// Promises [`Promise::Watermarks`].
    #[must_use]
    pub fn watermarks(self) -> Self {
        self.promising(Promise::Watermarks)
    }

    /// Promises [`Promise::Admin`].
    #[must_use]
    pub fn admin(self) -> Self {
        self.promising(Promise::Admin)
    }

    /// Promises [`Promise::Transactions`].
    #[must_use]
    pub fn transactions(self) -> Self {
        self.promising(Promise::Transactions)
    }

    /// Promises [`Promise::RowLocks`].
    #[must_use]
    pub fn row_locks(self) -> Self {
        self.promising(Promise::RowLocks)
    }

    /// Promises [`Promise::Damage`].
    #[must_use]
    pub fn damage(self) -> Self {
        self.promising(Promise::Damage)
    }

    /// Promises [`Promise::Password`].
    #[must_use]
    pub fn password(self) -> Self {
        self.promising(Promise::Password)
    }

    /// Withdraws [`Promise::ExactPurge`]: the server expires records by itself.
    #[must_use]
    pub fn self_expiring(mut self) -> Self {
        self.promises.remove(&Promise::ExactPurge);
        self
    }

    fn promising(mut self, promise: Promise) -> Self {
        self.promises.insert(promise);
        self
    }

    /// Sets the largest body that the cases send, in bytes; the store's own limit may be higher.
    #[must_use]
    pub fn with_max_result_bytes(mut self, bytes: usize) -> Self {
        self.max_result_bytes = bytes;
        self
    }

    /// Sets a lease that ends soon, but not between two statements; a slow server may need more
    /// than 60 ms.
    #[must_use]
    pub fn with_shortest_lease(mut self, lease: Duration) -> Self {
        self.shortest_lease = lease;
        self
    }

    /// Measures how long writes take on the server before the first case, and makes a lease that
    /// ends soon several times as long, if the profile's is shorter: on a replica set, whose members
    /// confirm a write, 60 ms may be over before the store has its answer.
    #[must_use]
    pub fn with_measured_lease(mut self) -> Self {
        self.measures_lease = true;
        self
    }

    /// Sets how long a case waits for an expected event before it fails.
    #[must_use]
    pub fn with_max_wait(mut self, max_wait: Duration) -> Self {
        self.max_wait = max_wait;
        self
    }

    /// Sets how long the store's clock shows the same instant; a microsecond by default. That clock
    /// judges every lease and retention, so the callers' clocks may see one end that much too early.
    #[must_use]
    pub fn with_clock_tick(mut self, tick: Duration) -> Self {
        self.clock_tick = tick;
        self
    }

    /// Sets by how much a client whose machine has a wrong clock may be wrong about the store's
    /// clock; zero by default. A server that decides without a clock of its own leaves the instants
    /// to its clients, who know its clock only by its answers.
    #[must_use]
    pub fn with_clock_skew(mut self, skew: Duration) -> Self {
        self.clock_skew = skew;
        self
    }

    /// Lets a claim change a record and answer with what another caller has left of it: the store
    /// writes with one statement and reads with another.
    #[must_use]
    pub fn with_claims_that_ask_again(mut self) -> Self {
        self.asks_again = true;
        self
    }

    /// Lets stored results come from a cache, which answers with the instant of the database and the
    /// age of its entry, by two clocks.
    #[must_use]
    pub fn with_cache(mut self) -> Self {
        self.caches = true;
        self
    }

    /// Sets how many cases run at a time for each core of the machine, for a server that needs the
    /// processor rather than time. Default: eight on any machine.
    #[must_use]
    pub fn with_slots_per_core(mut self, slots: usize) -> Self {
        self.slots_per_core = Some(slots);
        self
    }

    /// Returns whether this is promised.
    #[must_use]
    pub fn promises(&self, promise: Promise) -> bool {
        match promise {
            Promise::FakeTime => libfaketime().is_some(),
            promise => self.promises.contains(&promise),
        }
    }

    /// Returns the largest body that the cases send.
    #[must_use]
    pub fn max_result_bytes(&self) -> usize {
        self.max_result_bytes
    }

    /// Returns a lease that ends soon.
    #[must_use]
    pub fn shortest_lease(&self) -> Duration {
        self.shortest_lease
    }

    /// Returns whether the least lease is measured.
    #[must_use]
    pub fn measures_lease(&self) -> bool {
        self.measures_lease
    }

    /// Returns whether a claim may answer with what another caller has left after it.
    #[must_use]
    pub fn claims_ask_again(&self) -> bool {
        self.asks_again
    }

    /// Returns whether stored results come from a cache.
    #[must_use]
    pub fn caches(&self) -> bool {
        self.caches
    }

    /// Returns how long the store's clock shows the same instant.
    #[must_use]
    pub fn clock_tick(&self) -> Duration {
        self.clock_tick
    }

    /// Returns by how much a client with a wrong clock may be wrong about the store's clock.
    #[must_use]
    pub fn clock_skew(&self) -> Duration {
        self.clock_skew
    }

    /// Returns how many cases run at a time for each core, if it is set.
    #[must_use]
    pub fn slots_per_core(&self) -> Option<usize> {
        self.slots_per_core
    }

    /// Returns how long a case waits.
    #[must_use]
    pub fn max_wait(&self) -> Duration {
        self.max_wait
    }
}

impl Default for Profile {
    fn default() -> Self {
        Self::new()
    }
}
