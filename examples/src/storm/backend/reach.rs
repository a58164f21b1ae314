//! [`reach`]: distinguishes a wrong URL from an unreachable server.

use std::error::Error;
use std::time::Duration;

use idem_core::BoxError;
use idem_postgres::sqlx;

use super::SERVER_TIMEOUT;
use crate::storm::stop::Stop;

/// Connects once, because a pool treats a refused connection as a starting server and retries for
/// half a minute. `parts` are the parts of the URL that the server checks.
pub(super) async fn reach<T, E: Into<BoxError>>(
    server: &str,
    parts: &str,
    connect: impl Future<Output = Result<T, E>>,
) -> Result<T, Stop> {
    let server = format!("--store: {server}");
    let away = format!("{server} cannot be reached; is it running, and is the URL right?");
    // Some drivers have the limit themselves, and their errors say more.
    let limit = SERVER_TIMEOUT + Duration::from_millis(500);
    match tokio::time::timeout(limit, connect).await {
        Ok(Ok(connection)) => Ok(connection),
        Ok(Err(error)) => {
            let error = error.into();
            let refused = format!("{server} refuses the connection; check {parts} in the URL");
            let message = if is_refusal(&*error) { refused } else { away };
            Err(Stop::because(message, &*error))
        }
        Err(_) => Err(Stop::new(format!(
            "{away} (no answer within {} s)",
            SERVER_TIMEOUT.as_secs()
        ))),
    }
}

fn is_refusal(error: &(dyn Error + 'static)) -> bool {
    let error = error.downcast_ref::<sqlx::Error>();
    error.is_some_and(|error| error.as_database_error().is_some())
}
