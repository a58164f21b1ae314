//! Lists of records. Laws 2, 11 and 15.

use std::collections::HashMap;
use std::time::Duration;

use idem_core::admin::{
    AUDIT_OPERATION, Cursor, RecordFilter, RecordSummary, SummaryState as State,
};
use idem_core::{
    Checkpoint, ErrorKind, Failure, IdempotencyStoreExt as _, Key, Response, StalePolicy,
};

use crate::case::cases;
use crate::context::LONG;
use crate::expect::{admin, points};
use crate::failure::{ensure, ensure_eq};
use crate::secrets::secret;
use crate::{CaseResult, Context, expect};

cases! { LAW02, law 2:
    a_list_of_an_empty_store_is_empty [Admin],
    a_list_shows_every_state_as_it_is [Admin],
    a_list_shows_stale_and_expired_records [Admin, ExactPurge],
    a_list_has_each_record_once_in_pages_of_any_size [Admin],
    a_list_keeps_to_its_filter [Admin],
    a_list_shows_the_name_of_the_last_checkpoint [Admin, Checkpoints],
    a_summary_is_that_of_the_list [Admin],
    keys_of_any_text_are_listed_and_found [Admin],
    a_list_beside_claims_misses_no_record_that_stays [Admin],
    records_are_counted_up_to_a_bound [Admin],
}

cases! { LAW11, law 11:
    a_list_refuses_a_bad_limit_and_a_foreign_cursor [Admin],
}

cases! { LAW15, law 15:
    a_list_changes_nothing [Admin],
}

/// Returns all records that match, in pages of `limit`.
pub(super) async fn listed(
    cx: &Context,
    filter: &RecordFilter,
    limit: u32,
) -> CaseResult<Vec<RecordSummary>> {
    let (mut records, mut cursor) = (Vec::new(), None::<Cursor>);
    // Redis looks at a few records more than there are.
    for _ in 0..2_000 {
        let page = admin(cx.store())?
            .list(filter, cursor.as_ref(), limit)
            .await?;
        ensure!(
            page.records.len() <= page.looked_at as usize,
            "it returns more than it has looked at"
        );
        records.extend(page.records);
        cursor = page.next;
        if cursor.is_none() {
            // Only Redis may return a record twice.
            let mut once: HashMap<Key, RecordSummary> = HashMap::new();
            for record in records {
                once.insert(record.key.clone(), record);
            }
            return Ok(once.into_values().collect());
        }
    }
    Err(crate::CaseError::new("the list has no end"))
}

async fn by_key(cx: &Context) -> CaseResult<HashMap<Key, RecordSummary>> {
    let records = listed(cx, &RecordFilter::new(), 1_000).await?;
    let by_key = |record: RecordSummary| (record.key.clone(), record);
    Ok(records.into_iter().map(by_key).collect())
}

async fn a_list_of_an_empty_store_is_empty(cx: &Context) -> CaseResult {
    ensure_eq!(by_key(cx).await?.len(), 0, "records");
    let summary = admin(cx.store())?.summary(&cx.key("nothing")).await?;
    ensure_eq!(summary, None, "summary");
    Ok(())
}

async fn a_list_shows_every_state_as_it_is(cx: &Context) -> CaseResult {
    let [held, completed, failed, released] =
        ["held", "completed", "failed", "released"].map(|id| cx.key(id));
    let request = cx.request(&held).with_on_stale(StalePolicy::Fail);
    let in_flight = cx.claim(&request).await?;
    let sealed = cx.claim(&cx.request(&completed)).await?;
    let body = secret("response").repeat(10);
    let response = Response::new(200, body.clone());
    cx.store().complete(&sealed, &response, LONG).await?;
    let lost = cx.claim(&cx.request(&failed)).await?;
    let failure = Failure::new("card.declined", secret("message")).with_details(vec![7; 5_000]);
    cx.store().fail(&lost, &failure, LONG).await?;
    let given_up = cx.claim(&cx.request(&released)).await?;
    cx.store().release(&given_up).await?;

    let records = by_key(cx).await?;
    ensure_eq!(records.len(), 3, "records; a released key has none");
    let record = &records[&held];
    ensure_eq!(record.state, State::InFlight, "state");
    ensure_eq!(record.token, in_flight.token(), "token");
    ensure_eq!(record.on_stale, StalePolicy::Fail, "when stale");
    ensure_eq!(record.attempts, 1, "attempts");
    ensure_eq!(record.sealed_at, None, "sealing of a record in flight");
    ensure_eq!(record.result_bytes, 0, "bytes of no result");
    ensure_eq!(
        record.lease_ends_at,
        Some(in_flight.lease_ends_at()),
        "lease"
    );
    let wanted = cx.request(&held).metadata().clone();
    ensure!(record.metadata == wanted, "metadata");
    ensure!(record.created_at <= record.observed_at, "first seen");
    ensure!(record.expires_at > record.observed_at, "retention");

    let record = &records[&completed];
    ensure_eq!(record.state, State::Completed, "state");
    ensure_eq!(record.lease_ends_at, None, "lease of a sealed record");
    ensure!(record.sealed_at.is_some(), "sealing");
    ensure!(
        record.result_bytes > body.len() as u64,
        "bytes of the result"
    );
    ensure_eq!(record.failure_code, None, "code of a response");

    let record = &records[&failed];
    ensure_eq!(record.state, State::Failed, "state");
    ensure_eq!(
        record.failure_code.as_deref(),
        Some("card.declined"),
        "code"
    );
    Ok(())
}

async fn a_list_shows_stale_and_expired_records(cx: &Context) -> CaseResult {
    let [stale, expired] = ["stale", "expired"].map(|id| cx.key(id));
    cx.leave_stale(&cx.request(&stale)).await?;
    let claim = cx.claim(&cx.request(&expired)).await?;
    let response = Response::new(200, secret("done"));
    cx.store().complete(&claim, &response, cx.short()).await?;
    cx.until_free(&expired).await?;
    let records = by_key(cx).await?;
    ensure_eq!(records[&stale].state, State::Stale, "after its lease");
    ensure_eq!(
        records[&expired].state,
        State::Expired,
        "after its retention"
    );
    Ok(())
}

async fn a_list_has_each_record_once_in_pages_of_any_size(cx: &Context) -> CaseResult {
    let scopes = ["tenant a", "tenant b", "z"];
    let mut keys = Vec::new();
    for at in 0..24 {
        let operation = ["pay", "refund"][at % 2];
        keys.push(Key::new(scopes[at % 3], operation, format!("{at:02}"))?);
    }
    for key in &keys {
        cx.hold(&cx.request(key)).await?;
    }
    keys.sort();
    for limit in [1, 5, 24, 1_000] {
        let records = listed(cx, &RecordFilter::new(), limit).await?;
        let mut found: Vec<_> = records.into_iter().map(|record| record.key).collect();
        found.sort();
        ensure!(
            found == keys,
            "pages of {limit} have {} records",
            found.len()
        );
    }
    Ok(())
}

async fn a_list_keeps_to_its_filter(cx: &Context) -> CaseResult {
    let mine = cx.key("mine");
    let other_scope = Key::new("another tenant", mine.operation(), "scope")?;
    let other_operation = Key::new(mine.scope(), "refunds.create", "operation")?;
    for key in [&mine, &other_scope] {
        cx.hold(&cx.request(key)).await?;
    }
    let failed = cx.claim(&cx.request(&other_operation)).await?;
    let failure = Failure::new("no.such", secret("payment"));
    cx.store().fail(&failed, &failure, LONG).await?;
    let all = RecordFilter::new();
    for (filter, wanted) in [
        (all.clone(), vec![&mine, &other_scope, &other_operation]),
        (all.clone().with_scope("another tenant"), vec![&other_scope]),
        (
            all.clone().with_operation("refunds.create"),
            vec![&other_operation],
        ),
        (
            all.clone().with_state(State::InFlight),
            vec![&mine, &other_scope],
        ),
        (
            all.clone().with_failure_code("no.such"),
            vec![&other_operation],
        ),
        (all.clone().with_failure_code("no.suc"), vec![]),
        (all.clone().with_min_age(Duration::from_secs(3_600)), vec![]),
        (all.clone().with_operation(AUDIT_OPERATION), vec![]),
    ] {
        let records = listed(cx, &filter, 2).await?;
        let mut found: Vec<_> = records.iter().map(|record| &record.key).collect();
        let mut wanted = wanted;
        found.sort();
        wanted.sort();
        ensure!(found == wanted, "found {} of {}", found.len(), wanted.len());
    }
    Ok(())
}

async fn a_list_shows_the_name_of_the_last_checkpoint(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("held"))).await?;
    for (name, bytes) in [("reserved", 10), ("charged", 9_000)] {
        let point = Checkpoint::new(name, vec![7; bytes])?;
        points(cx.store())?.checkpoint(&claim, &point).await?;
        let record = by_key(cx).await?.remove(claim.key());
        let record = record.ok_or_else(|| crate::CaseError::new("no record"))?;
        ensure_eq!(record.checkpoint.as_deref(), Some(name), "checkpoint");
        ensure!(record.result_bytes > bytes as u64, "bytes of it");
    }
    Ok(())
}

async fn a_summary_is_that_of_the_list(cx: &Context) -> CaseResult {
    for id in ["held", "completed"] {
        let claim = cx.claim(&cx.request(&cx.key(id))).await?;
        if id == "completed" {
            let response = Response::new(200, secret("done"));
            cx.store().complete(&claim, &response, LONG).await?;
        }
    }
    for (key, mut listed) in by_key(cx).await? {
        let summary = admin(cx.store())?.summary(&key).await?;
        let mut summary = summary.ok_or_else(|| crate::CaseError::new("no summary"))?;
        ensure!(summary.observed_at >= listed.observed_at, "the clock");
        (summary.observed_at, listed.observed_at) = Default::default();
        ensure!(summary == listed, "summary and list differ");
    }
    Ok(())
}

async fn keys_of_any_text_are_listed_and_found(cx: &Context) -> CaseResult {
    let longest = "\u{e9}".repeat(127) + "e";
    let texts = [
        "<script>alert(1)</script>",
        "\u{202e}right to left",
        "\u{1f469}\u{200d}\u{1f680}",
        "a:b{c}%3A%",
        "'; DROP TABLE idem_records; --",
        "*?[a-z]\\",
        " ",
        &longest,
    ];
    for text in texts {
        let operation: String = text.chars().take(40).collect();
        let key = Key::new(text, operation, text)?;
        cx.hold(&cx.request(&key)).await?;
        let found = admin(cx.store())?.summary(&key).await?;
        ensure!(
            found.is_some_and(|found| found.key == key),
            "not found: {text}"
        );
    }
    for limit in [1, 3, 100] {
        let records = listed(cx, &RecordFilter::new(), limit).await?;
        for text in texts {
            let is_listed = records.iter().any(|record| record.key.id() == text);
            ensure!(is_listed, "not listed in pages of {limit}: {text}");
        }
        ensure_eq!(records.len(), texts.len(), "records in pages of {limit}");
    }
    Ok(())
}

async fn a_list_beside_claims_misses_no_record_that_stays(cx: &Context) -> CaseResult {
    let staying: Vec<_> = (0..30).map(|at| cx.key(format!("stays {at:02}"))).collect();
    for key in &staying {
        cx.hold(&cx.request(key)).await?;
    }
    let (mut found, mut cursor, mut pages) = (Vec::new(), None::<Cursor>, 0);
    loop {
        let page = admin(cx.store())?
            .list(&RecordFilter::new(), cursor.as_ref(), 4)
            .await?;
        found.extend(page.records.into_iter().map(|record| record.key));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
        ensure!(pages < 2_000, "the list has no end");
        // Keys that come and go, before and behind the cursor.
        if pages < 30 {
            for id in [format!("a {pages:02}"), format!("z {pages:02}")] {
                let claim = cx.claim(&cx.request(&cx.key(id))).await?;
                if pages % 2 == 0 {
                    cx.store().release(&claim).await?;
                }
            }
        }
        pages += 1;
    }
    for key in &staying {
        ensure!(found.contains(key), "missed {}", key.id());
    }
    Ok(())
}

async fn records_are_counted_up_to_a_bound(cx: &Context) -> CaseResult {
    for at in 0..7 {
        cx.hold(&cx.request(&cx.key(format!("held {at}")))).await?;
    }
    let all = RecordFilter::new();
    let counted = cx.store().count_records(&all, 1_000_000).await?;
    ensure!(counted.matching >= 7 && counted.is_complete, "{counted:?}");
    let none = all.clone().with_state(State::Failed);
    let counted = cx.store().count_records(&none, 1_000_000).await?;
    ensure!(counted.matching == 0 && counted.is_complete, "{counted:?}");
    let counted = cx.store().count_records(&all, 0).await?;
    ensure!(counted.matching == 0 && !counted.is_complete, "{counted:?}");
    Ok(())
}

async fn a_list_refuses_a_bad_limit_and_a_foreign_cursor(cx: &Context) -> CaseResult {
    let all = RecordFilter::new();
    for limit in [0, 10_001] {
        let page = admin(cx.store())?.list(&all, None, limit).await;
        expect::refused(page, ErrorKind::InvalidInput)?;
    }
    for text in ["", "no cursor of any store"] {
        let cursor = Cursor::new(text);
        let page = admin(cx.store())?.list(&all, Some(&cursor), 10).await;
        expect::refused(page, ErrorKind::InvalidInput)?;
    }
    Ok(())
}

async fn a_list_changes_nothing(cx: &Context) -> CaseResult {
    let stale = cx.stale_claim(&cx.request(&cx.key("stale"))).await?;
    let held = cx.claim(&cx.request(&cx.key("held"))).await?;
    let before = [
        expect::unobserved(cx.store().get(stale.key()).await?),
        expect::unobserved(cx.store().get(held.key()).await?),
    ];
    for _ in 0..50 {
        by_key(cx).await?;
        admin(cx.store())?.summary(stale.key()).await?;
    }
    let after = [
        expect::unobserved(cx.store().get(stale.key()).await?),
        expect::unobserved(cx.store().get(held.key()).await?),
    ];
    ensure!(before == after, "a list has changed a record");
    for claim in [&stale, &held] {
        let response = Response::new(200, secret("done"));
        cx.store().complete(claim, &response, LONG).await?;
    }
    Ok(())
}
