//! Connections to servers.

use std::time::Duration;

use idem_core::BoxError;
use idem_sqlite::sqlx;

use crate::storm::stop::{OrStop, Stop};

/// How long a run waits for a server that does not answer.
pub(super) const SERVER_TIMEOUT: Duration = Duration::from_secs(5);

/// Connects once, because a pool treats a refused connection as a starting server and retries for
/// half a minute. The error distinguishes a wrong URL from an unreachable server. `parts` are the
/// parts of the URL that the server checks.
pub(super) async fn reach<T, E: Into<BoxError>>(
    server: &str,
    parts: &str,
    connect: impl Future<Output = Result<T, E>>,
) -> Result<T, Stop> {
    let away = format!("--store: {server} cannot be reached; is it running, and is the URL right?");
    // Some drivers have the limit themselves, and their errors say more.
    let limit = SERVER_TIMEOUT + Duration::from_millis(500);
    let connected = tokio::time::timeout(limit, connect).await.map_err(|_| {
        let seconds = SERVER_TIMEOUT.as_secs();
        Stop::new(format!("{away} (no answer within {seconds} s)"))
    })?;
    let connected = connected.map_err(E::into);
    let message = match &connected {
        Err(error) if matches!(error.downcast_ref(), Some(sqlx::Error::Database(_))) => {
            format!("--store: {server} refuses the connection; check {parts} in the URL")
        }
        _ => away,
    };
    connected.or_stop(message)
}
