use crate::postgres;
use crate::{Server, server::Setting};

/// A hot standby of the PostgreSQL at [`Options::with_upstream`](crate::Options::with_upstream),
/// for tests only. It streams from there under the name [`NAME`](Self::NAME), which the primary's
/// `synchronous_standby_names` may contain.
///
/// Start it with [`start_private`](crate::start_private)`("postgres-standby", …)`: it copies the
/// primary's data, and counts as started when it answers. `SELECT pg_promote()` makes it a primary.
#[derive(Clone, Copy, Debug)]
pub struct PostgresStandby;

impl PostgresStandby {
    /// The name under which it streams.
    pub const NAME: &'static str = "standby";
}

/// The copy contains the connection to the primary; its name comes from `cluster_name`
/// (<https://www.postgresql.org/docs/current/runtime-config-logging.html#GUC-CLUSTER-NAME>).
pub(crate) const SERVER: Server = Server {
    product: "PostgreSQL standby",
    packages: postgres::SERVER.packages,
    programs: &["postgres", "pg_basebackup"],
    folder: postgres::SERVER.folder,
    upstream: Some(postgres::SERVER.name),
    url: postgres::SERVER.url,
    setup: &[
        "pg_basebackup -h {host} -p {host_port} -U postgres -D {folder}/data -R -X stream \
              -c fast --no-sync",
    ],
    arguments: "-D {folder}/data -k '' -c listen_addresses=127.0.0.1 -p {port} \
                -c cluster_name=standby",
    options: postgres::SERVER.options,
    fast: postgres::SERVER.fast,
    durable: postgres::SERVER.durable,
    setting: Setting::Arguments("-c {name}={value}"),
    stop_signal: postgres::SERVER.stop_signal,
    ..Server::new("postgres-standby", postgres::probe)
};
