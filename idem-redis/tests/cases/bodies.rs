//! Results as large as the limits allow.

use idem_conformance::{Case, CaseResult, Context};
use idem_core::{BatchStore, Finish, IdempotencyStore, Metadata, Record, Response};
use idem_redis::Config;

use super::{HOUR, case};
use crate::support;

pub(super) const EIGHT_MEBIBYTES_ARE_KEPT_TO_THE_BYTE: Case =
    case(3, "eight_mebibytes_are_kept_to_the_byte", |cx| {
        Box::pin(eight_mebibytes_are_kept_to_the_byte(cx))
    });
pub(super) const A_BATCH_THAT_FILLS_SEVERAL_PIPELINES_IS_KEPT_TO_THE_BYTE: Case = case(
    3,
    "a_batch_that_fills_several_pipelines_is_kept_to_the_byte",
    |cx| Box::pin(a_batch_that_fills_several_pipelines_is_kept_to_the_byte(cx)),
);

/// What the stored form adds to a body of these cases.
const BESIDE: usize = 1 << 10;

/// Every byte occurs, at every position of a word, and no two bodies are alike.
fn body(number: usize, bytes: usize) -> Vec<u8> {
    let mixed = |place: usize| (place.wrapping_mul(31) ^ (place >> 8) ^ number) as u8;
    (0..bytes).map(mixed).collect()
}

async fn eight_mebibytes_are_kept_to_the_byte(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    let metadata = Metadata::from_iter([("hôte", "zürich 💶")]);
    let request = cx.request(&cx.key("one")).with_metadata(metadata.clone());
    let claim = cx.claim(&request).await?;
    let response =
        Response::new(206, body(1, (8 << 20) - BESIDE)).with_header("etag", vec![0, 255, 13, 10]);
    store.complete(&claim, &response, HOUR).await?;
    store.complete(&claim, &response, HOUR).await?;
    let Some(Record::Completed(record)) = cx.store().get(request.key()).await? else {
        return Err("not completed".into());
    };
    assert!(record.response == response, "another body");
    assert_eq!(record.info.metadata, metadata);
    let mut other = response.body().to_vec();
    *other.last_mut().expect("a byte") ^= 1;
    let other = Response::new(206, other).with_header("etag", vec![0, 255, 13, 10]);
    let error = store.complete(&claim, &other, HOUR).await.unwrap_err();
    assert_eq!(error.kind(), idem_core::ErrorKind::AlreadySealed, "{error}");
    Ok(())
}

async fn a_batch_that_fills_several_pipelines_is_kept_to_the_byte(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let config = Config::new().with_namespace(cx.namespace())?;
    let store = harness.store_with(config.with_timeout(HOUR)).await?;
    let sizes = [6 << 20, 6 << 20, 6 << 20, 1, 0, (8 << 20) - BESIDE, 100];
    let requests: Vec<_> = (0..sizes.len())
        .map(|number| cx.request(&cx.key(format!("{number}"))))
        .collect();
    let mut completions = Vec::new();
    for (number, outcome) in store.claim_many(&requests).await.into_iter().enumerate() {
        completions.push(Finish::Complete {
            claim: outcome?.acquired().expect("fresh"),
            response: Response::new(200, body(number, sizes[number])),
            retention: HOUR,
        });
    }
    for done in store.finish_many(&completions).await {
        done?;
    }
    for completion in &completions {
        let Some(Record::Completed(record)) = store.get(completion.claim().key()).await? else {
            return Err("not completed".into());
        };
        let is_same =
            matches!(completion, Finish::Complete { response, .. } if *response == record.response);
        assert!(is_same, "another body");
    }
    Ok(())
}
