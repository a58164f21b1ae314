//! [`Server`]: a Redis, a Valkey, or a cluster of either.

use std::fmt;

use idem_core::BoxError;
use idem_redis::redis::{Cmd, FromRedisValue, RedisResult, ScriptInvocation, cmd};
use tokio::sync::Mutex;

use super::super::SERVER_TIMEOUT;
use super::connection::Connection;
use crate::storm::stop::Stop;
use crate::storm::url::{nodes, without_credentials};

/// The number of keys that a server scans in one step.
const STEP: u32 = 1_000;

/// The address, and the connection, which is replaced after an error.
pub(in super::super) struct Server {
    urls: Vec<String>,
    connection: Mutex<Option<Connection>>,
}

impl Server {
    /// Connects.
    pub(in super::super) async fn open(urls: &str) -> Result<Self, Stop> {
        let server = Self {
            urls: nodes(urls).into_iter().map(str::to_owned).collect(),
            connection: Mutex::new(None),
        };
        let away = || {
            let nodes = without_credentials(urls);
            format!(
                "--store: Redis at {nodes} cannot be reached; is it running, and is the URL right?"
            )
        };
        match tokio::time::timeout(SERVER_TIMEOUT, server.connection()).await {
            Ok(Ok(_)) => Ok(server),
            Ok(Err(error)) => Err(Stop::because(away(), &error)),
            Err(_) => {
                let seconds = SERVER_TIMEOUT.as_secs();
                let away = away();
                Err(Stop::new(format!("{away} (no answer within {seconds} s)")))
            }
        }
    }

    async fn connection(&self) -> RedisResult<Connection> {
        let mut slot = self.connection.lock().await;
        if let Some(connection) = &*slot {
            return Ok(connection.clone());
        }
        let connection = Connection::open(&self.urls).await?;
        *slot = Some(connection.clone());
        Ok(connection)
    }

    /// Drops the connection after an error, so that the next caller connects again.
    async fn checked<T>(&self, answer: RedisResult<T>) -> Result<T, BoxError> {
        if answer.is_err() {
            *self.connection.lock().await = None;
        }
        Ok(answer?)
    }

    /// Runs a command.
    pub(super) async fn query<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, BoxError> {
        let mut connection = self.connection().await?;
        let answer = command.query_async(&mut connection).await;
        self.checked(answer).await
    }

    /// Runs a script.
    pub(super) async fn run<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
    ) -> Result<T, BoxError> {
        let mut connection = self.connection().await?;
        let answer = script.invoke_async(&mut connection).await;
        self.checked(answer).await
    }

    /// Returns name and version.
    pub(in super::super) async fn product(&self) -> Result<String, BoxError> {
        let mut connection = self.connection().await?;
        let masters = connection.masters().await?;
        let first = masters.first().and_then(Option::as_deref);
        let mut command = cmd("INFO");
        command.arg("server");
        let info: String = connection.query_at(first, &command).await?;
        Ok(product(&info))
    }

    /// Removes all keys of this namespace, on every master.
    pub(in super::super) async fn forget(&self, namespace: &str) -> Result<(), BoxError> {
        let mut connection = self.connection().await?;
        for master in connection.masters().await? {
            let mut cursor = 0_u64;
            loop {
                let mut scan = cmd("SCAN");
                scan.arg(cursor).arg("MATCH").arg(format!("{namespace}:*"));
                scan.arg("COUNT").arg(STEP);
                let found: (u64, Vec<Vec<u8>>) =
                    connection.query_at(master.as_deref(), &scan).await?;
                for key in &found.1 {
                    // One by one: each key may be in another slot.
                    let () = cmd("UNLINK").arg(key).query_async(&mut connection).await?;
                }
                cursor = found.0;
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// Shows no address and no password.
impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

/// Reads `INFO server`. A Valkey names itself there, beside the version of the Redis that it
/// follows.
fn product(info: &str) -> String {
    let field = |name: &str| {
        info.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(str::trim)
    };
    let (name, version) = match field("valkey_version") {
        Some(version) => ("Valkey", version),
        None => ("Redis", field("redis_version").unwrap_or("unknown")),
    };
    match field("redis_mode").or(field("server_mode")) {
        Some("cluster") => format!("{name} {version} cluster"),
        _ => format!("{name} {version}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_valkey_is_not_taken_for_the_redis_that_it_follows() {
        let redis = "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n";
        assert_eq!(product(redis), "Redis 7.0.15");
        let valkey = "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\n\
                      redis_mode:cluster\r\n";
        assert_eq!(product(valkey), "Valkey 8.1.1 cluster");
    }
}
