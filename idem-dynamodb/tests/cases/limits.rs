//! The limits of an item, and what is shown.

use idem_conformance::{CaseResult, Context};
use idem_core::{
    Checkpoint, CheckpointStore, ErrorKind, IdempotencyStore, Key, Metadata, Record, Response,
};

use super::HOUR;
use crate::support;
use crate::support::service::Service;

/// A body whose response has exactly this many bytes in stored form.
fn response(bytes: usize) -> Response {
    Response::new(200, vec![7; bytes - 7])
}

pub(super) async fn the_largest_record_fits_into_an_item(cx: &Context) -> CaseResult {
    let store = support::harness()?.store(cx.namespace()).await?;
    let limits = store.limits();
    // The longest key, whose parts take three bytes each where they are encoded.
    let worst = |bytes: usize| "%".repeat(bytes);
    let key = Key::new(worst(255), worst(128), worst(255))?;
    let mut metadata = Metadata::new();
    for part in 0..4 {
        metadata = metadata.with(format!("part {part}"), "x".repeat(1000));
    }
    let request = cx.request(&key).with_metadata(metadata);
    let claim = store.claim(&request).await?.acquired().expect("free");
    let point = Checkpoint::new("n", vec![7; limits.max_result_bytes - 3])?;
    store.checkpoint(&claim, &point).await?;
    let response = response(limits.max_result_bytes);
    store.complete(&claim, &response, HOUR).await?;
    let Some(Record::Completed(record)) = store.get(&key).await? else {
        panic!("not completed");
    };
    assert!(record.response == response, "byte for byte");
    Ok(())
}

pub(super) async fn nothing_is_sent_of_what_is_too_large(cx: &Context) -> CaseResult {
    let harness = support::harness()?;
    let service = Service::start(&harness).await?;
    let store = service.store(cx, &harness, |config| config)?;
    let claim = store.claim(&cx.request(&cx.key("one"))).await?;
    let claim = claim.acquired().expect("free");
    service.take_requests();
    let bytes = store.limits().max_result_bytes + 1;
    let error = store.complete(&claim, &response(bytes), HOUR).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains(&bytes.to_string()), "{error}");
    assert_eq!(service.take_requests(), 0, "sent");
    store.complete(&claim, &response(100), HOUR).await?;
    Ok(())
}

pub(super) async fn debug_shows_no_secret(cx: &Context) -> CaseResult {
    let store = support::harness()?.store(cx.namespace()).await?;
    let shown = format!("{store:?}");
    assert!(shown.contains(cx.namespace()), "{shown}");
    assert!(
        !shown.contains("credential") && !shown.contains("127.0.0.1"),
        "{shown}"
    );
    Ok(())
}
