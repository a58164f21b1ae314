//! Batches as these servers take them: parameters of a derived table.

use std::time::Duration;

use idem_conformance::{Case, CaseResult, Context};
use idem_core::{Completion, Record, Response};

use super::case;

pub(super) const LARGE_RESULTS_OF_A_BATCH_ARE_STORED_WHOLE: Case =
    case(3, "large_results_of_a_batch_are_stored_whole", |cx| {
        Box::pin(large_results_of_a_batch_are_stored_whole(cx))
    });

/// Among small ones, because a server may take the type of a column from the first row.
async fn large_results_of_a_batch_are_stored_whole(cx: &Context) -> CaseResult {
    const SIZES: [usize; 6] = [0, 1, 70_000, 300, 3 << 20, 17_000];
    let mut completions = Vec::new();
    for size in SIZES {
        let claim = cx
            .claim(&cx.request(&cx.key(format!("size-{size}"))))
            .await?;
        let body: Vec<u8> = (0..size).map(|at| (at * 31 % 251) as u8).collect();
        completions.push(Completion {
            claim,
            response: Response::new(200, body),
            retention: Duration::from_secs(3600),
        });
    }
    for answer in cx.open_batch().await?.complete_many(&completions).await {
        answer?;
    }
    for completion in completions {
        let record = cx.store().get(completion.claim.key()).await?;
        let Some(Record::Completed(record)) = record else {
            return Err("not completed".into());
        };
        assert!(record.response == completion.response, "another body");
    }
    Ok(())
}
