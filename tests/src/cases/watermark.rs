//! Watermarks: their answers, their owners, and what is refused. Laws 2, 6 and 9 to 11.

use std::sync::Arc;
use std::time::Duration;

use idem_core::limits::{MAX_RETENTION, MAX_VERSION};
use idem_core::{Advance, Effect, ErrorKind, Key, Response};

use crate::case::cases;
use crate::context::LONG;
use crate::eventually::eventually;
use crate::expect::marks;
use crate::failure::ensure_eq;
use crate::faults::LosesAnswers;
use crate::profile::libfaketime;
use crate::secrets::secret;
use crate::worker::{Report, Step, Worker};
use crate::{CaseError, CaseResult, Context, expect};

cases! { LAW02, law 2:
    a_source_that_was_never_advanced_has_no_mark [Watermarks],
    a_newer_version_raises_the_mark [Watermarks],
    a_stale_version_is_told_where_the_mark_is [Watermarks],
    the_version_of_the_mark_is_told_as_unchanged [Watermarks],
}

cases! { LAW06, law 6:
    an_advance_whose_answer_was_lost_finds_its_mark [Watermarks],
}

cases! { LAW09, law 9:
    a_mark_raised_through_one_handle_holds_for_another [Watermarks],
    a_client_an_hour_ahead_changes_no_mark [Watermarks, SharedBetweenProcesses, ServerClock, FakeTime],
    a_client_an_hour_behind_changes_no_mark [Watermarks, SharedBetweenProcesses, ServerClock, FakeTime],
}

cases! { LAW10, law 10:
    sources_are_equal_only_if_their_bytes_are [Watermarks],
    marks_and_records_do_not_see_each_other [Watermarks],
}

cases! { LAW11, law 11:
    versions_at_their_limits_are_accepted [Watermarks],
    a_version_over_the_limit_is_refused [Watermarks],
    advancing_with_a_bad_retention_is_refused [Watermarks],
    purge_of_marks_refuses_a_bad_limit [Watermarks],
}

/// Raises the mark, and returns the outcome.
pub(super) async fn advance(cx: &Context, source: &Key, version: u64) -> CaseResult<Advance> {
    Ok(marks(cx.store())?.advance(source, version, LONG).await?)
}

/// Checks the mark of the source.
pub(super) async fn mark_is(cx: &Context, source: &Key, wanted: Option<u64>) -> CaseResult {
    let mark = marks(cx.store())?.watermark(source).await?;
    ensure_eq!(mark, wanted, "the mark");
    Ok(())
}

/// Waits until the source has no mark.
pub(super) async fn until_unmarked(cx: &Context, source: &Key) -> CaseResult {
    let ask = || async {
        let mark = marks(cx.store())?.watermark(source).await?;
        Ok(mark.is_none().then_some(()))
    };
    eventually(cx.profile().max_wait(), "the mark's retention ends", ask).await
}

async fn a_source_that_was_never_advanced_has_no_mark(cx: &Context) -> CaseResult {
    mark_is(cx, &cx.key("never"), None).await
}

async fn a_newer_version_raises_the_mark(cx: &Context) -> CaseResult {
    let source = cx.key("source");
    for version in [0, 1, 2, 17, 1 << 40, MAX_VERSION] {
        let returned = advance(cx, &source, version).await?;
        ensure_eq!(returned, Advance::Advanced, "version {version}");
        mark_is(cx, &source, Some(version)).await?;
    }
    Ok(())
}

async fn a_stale_version_is_told_where_the_mark_is(cx: &Context) -> CaseResult {
    let source = cx.key("source");
    advance(cx, &source, 9).await?;
    for version in [8, 0, 5] {
        let returned = advance(cx, &source, version).await?;
        ensure_eq!(returned, Advance::Stale { current: 9 }, "version {version}");
        ensure_eq!(returned.is_stale(), true, "version {version}");
        mark_is(cx, &source, Some(9)).await?;
    }
    ensure_eq!(
        advance(cx, &source, 10).await?,
        Advance::Advanced,
        "version 10"
    );
    Ok(())
}

async fn the_version_of_the_mark_is_told_as_unchanged(cx: &Context) -> CaseResult {
    let other = cx.open().await?;
    for (id, version) in [("zero", 0), ("seven", 7), ("greatest", MAX_VERSION)] {
        let source = cx.key(id);
        advance(cx, &source, version).await?;
        for store in [cx.store(), &other] {
            let returned = marks(store)?.advance(&source, version, LONG).await?;
            ensure_eq!(returned, Advance::Unchanged, "version {version}");
        }
        mark_is(cx, &source, Some(version)).await?;
    }
    Ok(())
}

async fn an_advance_whose_answer_was_lost_finds_its_mark(cx: &Context) -> CaseResult {
    let store = LosesAnswers::new(Arc::clone(cx.store()));
    let source = cx.key("lost");
    store.lose_next(1);
    let error = marks(&store)?.advance(&source, 3, LONG).await.err();
    let error = error.ok_or_else(|| CaseError::new("the answer arrived"))?;
    ensure_eq!(error.effect(), Effect::Unknown, "effect of {error}");
    let returned = marks(&store)?.advance(&source, 3, LONG).await?;
    ensure_eq!(returned, Advance::Unchanged, "asked again");
    mark_is(cx, &source, Some(3)).await
}

async fn a_mark_raised_through_one_handle_holds_for_another(cx: &Context) -> CaseResult {
    for at in 0..6 {
        let source = cx.key(format!("source {at}"));
        let (mine, theirs) = (cx.open().await?, cx.open().await?);
        let returned = marks(&mine)?.advance(&source, 5, LONG).await?;
        ensure_eq!(returned, Advance::Advanced, "the first");
        let mark = marks(&theirs)?.watermark(&source).await?;
        ensure_eq!(mark, Some(5), "the mark");
        let returned = marks(&theirs)?.advance(&source, 4, LONG).await?;
        ensure_eq!(returned, Advance::Stale { current: 5 }, "an older one");
        let returned = marks(&theirs)?.advance(&source, 6, LONG).await?;
        ensure_eq!(returned, Advance::Advanced, "a newer one");
        let returned = marks(&mine)?.advance(&source, 6, LONG).await?;
        ensure_eq!(returned, Advance::Unchanged, "the same");
    }
    Ok(())
}

async fn advanced(worker: &mut Worker) -> CaseResult<Advance> {
    match worker.report().await? {
        Report::Advanced(returned) => Ok(returned),
        other => Err(CaseError::new(format!("not an advance, but {other:?}"))),
    }
}

async fn a_wrong_clock_changes_no_mark(cx: &Context, offset: &str) -> CaseResult {
    let [live, theirs, expired] = ["live", "theirs", "expired"].map(|id| cx.key(id));
    advance(cx, &live, 5).await?;
    marks(cx.store())?.advance(&expired, 9, cx.short()).await?;
    until_unmarked(cx, &expired).await?;
    cx.pass_clock_skew().await;
    let step = |source: &Key, version| Step::Advance {
        source: source.clone(),
        version,
        retention: LONG,
    };
    let steps = vec![
        step(&live, 4),
        step(&expired, 3),
        step(&theirs, 7),
        Step::Hang,
    ];
    let library = libfaketime().ok_or_else(|| CaseError::new("libfaketime is gone"))?;
    let environment = [
        ("LD_PRELOAD", library.display().to_string()),
        ("FAKETIME", offset.to_owned()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
    ];
    let mut worker = Worker::start_with(cx, steps, &environment).await?;
    let wanted = [
        Advance::Stale { current: 5 },
        Advance::Advanced,
        Advance::Advanced,
    ];
    for wanted in wanted {
        ensure_eq!(advanced(&mut worker).await?, wanted, "told to the deceived");
    }
    for (source, version) in [(&live, 5), (&expired, 3), (&theirs, 7)] {
        mark_is(cx, source, Some(version)).await?;
    }
    ensure_eq!(
        marks(cx.store())?.delete_expired_watermarks(100).await?,
        0,
        "purged"
    );
    worker.kill().await
}

async fn a_client_an_hour_ahead_changes_no_mark(cx: &Context) -> CaseResult {
    a_wrong_clock_changes_no_mark(cx, "+1h").await
}

async fn a_client_an_hour_behind_changes_no_mark(cx: &Context) -> CaseResult {
    a_wrong_clock_changes_no_mark(cx, "-1h").await
}

async fn sources_are_equal_only_if_their_bytes_are(cx: &Context) -> CaseResult {
    let long = |last: &str| format!("{}{last}", "l".repeat(254));
    let texts = [
        "id",
        "ID",
        "Id",
        "\u{ed}d",
        "i\u{301}d",
        "id ",
        " id",
        "1",
        "01",
        "%",
        "_",
        "stra\u{df}e",
        "strasse",
        "\u{1f469}",
        "\u{1f469}\u{1f3fd}",
        &long("a"),
        &long("b"),
    ];
    let mut sources = Vec::new();
    for text in texts {
        sources.push(Key::new("scope", "operation", text)?);
        sources.push(Key::new(text, "operation", "id")?);
    }
    for operation in ["Operation", "operation ", "op\u{e9}ration"] {
        sources.push(Key::new("scope", operation, "id")?);
    }
    for (scope, operation) in [("ab", "c"), ("a", "bc")] {
        sources.push(Key::new(scope, operation, "id")?);
    }
    let unique: std::collections::BTreeSet<_> = sources.into_iter().collect();
    for (version, source) in (1..).zip(&unique) {
        mark_is(cx, source, None).await?;
        let returned = advance(cx, source, version).await?;
        ensure_eq!(returned, Advance::Advanced, "source {version}");
    }
    for (version, source) in (1..).zip(&unique) {
        mark_is(cx, source, Some(version)).await?;
    }
    Ok(())
}

async fn marks_and_records_do_not_see_each_other(cx: &Context) -> CaseResult {
    let [marked, held, both] = ["marked", "held", "both"].map(|id| cx.key(id));
    advance(cx, &marked, 5).await?;
    ensure_eq!(cx.store().get(&marked).await?, None, "a record");
    cx.hold(&cx.request(&held)).await?;
    mark_is(cx, &held, None).await?;
    advance(cx, &both, 7).await?;
    let claim = cx.claim(&cx.request(&both)).await?;
    ensure_eq!(
        advance(cx, &both, 6).await?,
        Advance::Stale { current: 7 },
        "an older one"
    );
    ensure_eq!(
        advance(cx, &both, 8).await?,
        Advance::Advanced,
        "a newer one"
    );
    let response = Response::new(200, secret("x"));
    cx.store().complete(&claim, &response, cx.short()).await?;
    cx.until_free(&both).await?;
    cx.store().delete_expired(100).await?;
    mark_is(cx, &both, Some(8)).await?;
    // The reverse: a mark ends and a record stays.
    let returned = marks(cx.store())?.advance(&held, 1, cx.short()).await?;
    ensure_eq!(
        returned,
        Advance::Advanced,
        "the mark of a key that is held"
    );
    until_unmarked(cx, &held).await?;
    marks(cx.store())?.delete_expired_watermarks(100).await?;
    expect::in_flight(cx.store().claim(&cx.request(&held)).await?)?;
    Ok(())
}

async fn versions_at_their_limits_are_accepted(cx: &Context) -> CaseResult {
    let source = cx.key("source");
    ensure_eq!(advance(cx, &source, 0).await?, Advance::Advanced, "zero");
    mark_is(cx, &source, Some(0)).await?;
    ensure_eq!(
        advance(cx, &source, MAX_VERSION).await?,
        Advance::Advanced,
        "the greatest"
    );
    let returned = advance(cx, &source, MAX_VERSION - 1).await?;
    ensure_eq!(
        returned,
        Advance::Stale {
            current: MAX_VERSION
        },
        "the one before"
    );
    mark_is(cx, &source, Some(MAX_VERSION)).await?;
    // Versions are numbers, not text, and exact above 2 to the 53rd.
    let source = cx.key("large");
    for version in [9, 10, (1 << 53) + 1, (1 << 53) + 2] {
        ensure_eq!(
            advance(cx, &source, version).await?,
            Advance::Advanced,
            "{version}"
        );
        mark_is(cx, &source, Some(version)).await?;
    }
    Ok(())
}

fn refused<T>(result: Result<T, idem_core::Error>) -> CaseResult {
    let error = expect::refused(result, ErrorKind::InvalidInput)?;
    ensure_eq!(error.operation().is_empty(), false, "no operation: {error}");
    Ok(())
}

async fn a_version_over_the_limit_is_refused(cx: &Context) -> CaseResult {
    let source = cx.key("source");
    for version in [MAX_VERSION + 1, u64::MAX] {
        refused(marks(cx.store())?.advance(&source, version, LONG).await)?;
    }
    mark_is(cx, &source, None).await?;
    advance(cx, &source, 3).await?;
    refused(marks(cx.store())?.advance(&source, u64::MAX, LONG).await)?;
    mark_is(cx, &source, Some(3)).await
}

async fn advancing_with_a_bad_retention_is_refused(cx: &Context) -> CaseResult {
    let source = cx.key("source");
    let more = MAX_RETENTION + Duration::from_millis(1);
    for retention in [Duration::ZERO, more, Duration::MAX] {
        refused(marks(cx.store())?.advance(&source, 1, retention).await)?;
    }
    mark_is(cx, &source, None).await?;
    let returned = marks(cx.store())?
        .advance(&source, 1, MAX_RETENTION)
        .await?;
    ensure_eq!(returned, Advance::Advanced, "the longest retention");
    mark_is(cx, &source, Some(1)).await
}

async fn purge_of_marks_refuses_a_bad_limit(cx: &Context) -> CaseResult {
    for limit in [0, idem_core::limits::MAX_BATCH + 1] {
        refused(marks(cx.store())?.delete_expired_watermarks(limit).await)?;
    }
    let most = marks(cx.store())?
        .delete_expired_watermarks(idem_core::limits::MAX_BATCH)
        .await?;
    ensure_eq!(most, 0, "purged of nothing");
    Ok(())
}
