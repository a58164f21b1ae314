//! Requests to end.

/// Returns when a signal ends the program: Ctrl-C, or on Unix SIGTERM or SIGHUP.
pub(crate) async fn end_is_wanted() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let (Ok(mut terminate), Ok(mut hang_up)) = (
            signal(SignalKind::terminate()),
            signal(SignalKind::hangup()),
        ) {
            tokio::select! {
                _ = terminate.recv() => return,
                _ = hang_up.recv() => return,
                _ = tokio::signal::ctrl_c() => return,
            }
        }
    }
    if tokio::signal::ctrl_c().await.is_err() {
        // Without a handler the signal itself ends the program.
        std::future::pending::<()>().await;
    }
}
