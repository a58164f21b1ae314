//! What the stores' own cases about migration share.

use std::process::{Child, Command, Stdio};

use idem_core::{
    Advance, BatchStore, BoxError, Checkpoint, CheckpointStore, Effect, Error, ErrorKind, Response,
    WatermarkStore,
};

use crate::{CaseError, CaseResult, Context};

/// What a child process migrates.
const CHILD: &str = "IDEM_TEST_MIGRATE";

/// Migrates, if this is a child process of [`sixteen_processes`]. `migrate` gets its job.
pub fn migrate_as_child(
    migrate: impl AsyncFnOnce(String) -> Result<(), BoxError>,
) -> Option<Result<(), BoxError>> {
    let job = std::env::var(CHILD).ok()?;
    let runtime = tokio::runtime::Runtime::new();
    Some(
        runtime
            .map_err(BoxError::from)
            .and_then(|runtime| runtime.block_on(migrate(job))),
    )
}

/// Starts sixteen processes of this test at once, each with the same job. Returns the error of the
/// first that failed, after all have ended.
pub async fn sixteen_processes(job: &str) -> CaseResult {
    let start = || {
        Command::new(std::env::current_exe()?)
            .env(CHILD, job)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
    };
    let children: Vec<_> = (0..16).map(|_| start()).collect::<Result<_, _>>()?;
    let wait = || children.into_iter().map(Child::wait_with_output);
    let outputs: Vec<_> = tokio::task::spawn_blocking(|| wait().collect()).await?;
    for output in outputs {
        let output = output?;
        if !output.status.success() {
            return Err(CaseError::new(String::from_utf8_lossy(&output.stderr)));
        }
    }
    Ok(())
}

/// Runs every kind of statement of a store that is new, such as one whose user may do no more than
/// SELECT, INSERT, UPDATE and DELETE.
pub async fn every_operation(
    cx: &Context,
    store: &(impl BatchStore + CheckpointStore + WatermarkStore),
) -> CaseResult {
    let claim = store.claim(&cx.request(&cx.key("one"))).await?.acquired();
    let claim = store
        .renew(&claim.expect("free"), std::time::Duration::from_secs(700))
        .await?;
    store
        .checkpoint(&claim, &Checkpoint::new("half", "data")?)
        .await?;
    assert!(store.last_checkpoint(&claim).await?.is_some());
    store
        .complete(&claim, &Response::new(200, "done"), cx.short())
        .await?;
    let requests = ["two", "three"].map(|id| cx.request(&cx.key(id)));
    for outcome in store.claim_many(&requests).await {
        store.release(&outcome?.acquired().expect("free")).await?;
    }
    cx.until_free(&cx.key("one")).await?;
    assert_eq!(store.delete_expired(10).await?, 3);
    assert_eq!(store.fail_abandoned(10).await?, 0);
    let source = cx.key("source");
    for version in [1, 2] {
        let returned = store.advance(&source, version, cx.short()).await?;
        assert_eq!(returned, Advance::Advanced);
    }
    while store.watermark(&source).await?.is_some() {
        tokio::time::sleep(cx.short() / 4).await;
    }
    assert_eq!(store.delete_expired_watermarks(10).await?, 1);
    Ok(())
}

/// Checks that an error names what an operator has to change, with this text.
pub fn is_misconfigured(error: &Error, text: &str) {
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert_eq!(error.effect(), Effect::None);
    assert!(!error.is_retryable());
    assert!(error.to_string().contains(text), "{error}");
}
