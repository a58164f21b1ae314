//! Watermarks: their retention and their deletion. Laws 8, 15 and 16.

use idem_core::{Advance, Key};

use super::watermark::{advance, mark_is, until_unmarked};
use crate::case::cases;
use crate::context::LONG;
use crate::expect::marks;
use crate::failure::{ensure, ensure_eq};
use crate::{CaseResult, Context, race};

cases! { LAW08, law 8:
    an_expired_mark_counts_as_absent [Watermarks],
    an_advance_begins_a_new_retention [Watermarks],
    a_new_retention_may_be_shorter [Watermarks],
    what_is_stale_or_unchanged_keeps_no_mark [Watermarks],
    no_live_mark_is_purged [Watermarks],
    purge_deletes_expired_marks_and_counts_them [Watermarks, ExactPurge],
    a_purged_source_begins_anew [Watermarks],
    purge_beside_racing_advances_takes_no_live_mark [Watermarks],
}

cases! { LAW15, law 15:
    two_hundred_stale_versions_change_nothing [Watermarks]: expensive,
}

cases! { LAW16, law 16:
    purge_of_marks_keeps_to_its_limit [Watermarks, ExactPurge],
    purges_of_marks_beside_each_other_delete_each_once [Watermarks, ExactPurge],
}

/// Returns `count` sources whose marks, at 9, have expired. All are marked before the first may
/// expire, so that no advance meets an expired mark.
pub(super) async fn expired(cx: &Context, count: usize) -> CaseResult<Vec<Key>> {
    let sources: Vec<_> = (0..count)
        .map(|at| cx.key(format!("expired {at}")))
        .collect();
    for source in &sources {
        let returned = advance(cx, source, 8).await?;
        ensure_eq!(returned, Advance::Advanced, "a new source");
    }
    for source in &sources {
        let returned = marks(cx.store())?.advance(source, 9, cx.short()).await?;
        ensure_eq!(returned, Advance::Advanced, "a newer version");
    }
    for source in &sources {
        until_unmarked(cx, source).await?;
    }
    Ok(sources)
}

async fn an_expired_mark_counts_as_absent(cx: &Context) -> CaseResult {
    for (source, version) in expired(cx, 3).await?.iter().zip([4, 9, 12]) {
        let returned = advance(cx, source, version).await?;
        ensure_eq!(returned, Advance::Advanced, "version {version} after 9");
        mark_is(cx, source, Some(version)).await?;
        ensure_eq!(
            advance(cx, source, version).await?,
            Advance::Unchanged,
            "again"
        );
    }
    Ok(())
}

async fn an_advance_begins_a_new_retention(cx: &Context) -> CaseResult {
    let (source, witness) = (cx.key("source"), cx.key("witness"));
    marks(cx.store())?.advance(&source, 1, cx.short()).await?;
    advance(cx, &source, 2).await?;
    marks(cx.store())?.advance(&witness, 1, cx.short()).await?;
    until_unmarked(cx, &witness).await?;
    // The first retention of the source ended before the witness's.
    mark_is(cx, &source, Some(2)).await?;
    marks(cx.store())?.delete_expired_watermarks(100).await?;
    mark_is(cx, &source, Some(2)).await
}

async fn a_new_retention_may_be_shorter(cx: &Context) -> CaseResult {
    let source = cx.key("source");
    advance(cx, &source, 1).await?;
    marks(cx.store())?.advance(&source, 2, cx.short()).await?;
    until_unmarked(cx, &source).await?;
    ensure_eq!(
        advance(cx, &source, 1).await?,
        Advance::Advanced,
        "afterwards"
    );
    Ok(())
}

async fn what_is_stale_or_unchanged_keeps_no_mark(cx: &Context) -> CaseResult {
    let source = cx.key("source");
    let started = std::time::Instant::now();
    marks(cx.store())?.advance(&source, 5, cx.short()).await?;
    while started.elapsed() < cx.profile().max_wait() {
        match advance(cx, &source, 4).await? {
            // An expired mark counts as absent.
            Advance::Advanced => return mark_is(cx, &source, Some(4)).await,
            returned => ensure_eq!(returned, Advance::Stale { current: 5 }, "an older one"),
        }
        match advance(cx, &source, 5).await? {
            Advance::Advanced => return mark_is(cx, &source, Some(5)).await,
            returned => ensure_eq!(returned, Advance::Unchanged, "the same"),
        }
        tokio::time::sleep(cx.short() / 8).await;
    }
    Err(crate::CaseError::new("the mark is kept by what is stale"))
}

async fn no_live_mark_is_purged(cx: &Context) -> CaseResult {
    let live: Vec<_> = (0..5).map(|at| cx.key(format!("live {at}"))).collect();
    for source in &live {
        advance(cx, source, 5).await?;
    }
    expired(cx, 3).await?;
    for _ in 0..3 {
        marks(cx.store())?.delete_expired_watermarks(100).await?;
        cx.store().delete_expired(100).await?;
    }
    for source in &live {
        mark_is(cx, source, Some(5)).await?;
    }
    Ok(())
}

async fn purge_deletes_expired_marks_and_counts_them(cx: &Context) -> CaseResult {
    advance(cx, &cx.key("live"), 5).await?;
    expired(cx, 3).await?;
    cx.store().delete_expired(100).await?;
    ensure_eq!(
        marks(cx.store())?.delete_expired_watermarks(100).await?,
        3,
        "purged"
    );
    ensure_eq!(
        marks(cx.store())?.delete_expired_watermarks(100).await?,
        0,
        "purged again"
    );
    mark_is(cx, &cx.key("live"), Some(5)).await
}

async fn a_purged_source_begins_anew(cx: &Context) -> CaseResult {
    let sources = expired(cx, 2).await?;
    marks(cx.store())?.delete_expired_watermarks(100).await?;
    for source in &sources {
        ensure_eq!(
            advance(cx, source, 1).await?,
            Advance::Advanced,
            "after the purge"
        );
        mark_is(cx, source, Some(1)).await?;
    }
    Ok(())
}

async fn purge_beside_racing_advances_takes_no_live_mark(cx: &Context) -> CaseResult {
    let sources = expired(cx, 24).await?;
    let mut sides: Vec<_> = sources.iter().cloned().map(Some).collect();
    for at in 0..6 {
        sides.insert(at * 4, None);
    }
    race::at_once(cx, sides, |store, asked, side| async move {
        let marks = marks(&store)?;
        let Some(source) = side else {
            for _ in 0..4 {
                race::ask(&asked, || marks.delete_expired_watermarks(7)).await?;
            }
            return Ok(());
        };
        let returned = race::ask(&asked, || marks.advance(&source, 3, LONG)).await?;
        ensure_eq!(returned, Advance::Advanced, "a mark that has expired");
        let mark = marks.watermark(&source).await?;
        ensure_eq!(mark, Some(3), "the mark");
        Ok(())
    })
    .await?;
    for source in &sources {
        mark_is(cx, source, Some(3)).await?;
    }
    Ok(())
}

async fn two_hundred_stale_versions_change_nothing(cx: &Context) -> CaseResult {
    let source = cx.key("source");
    advance(cx, &source, 500).await?;
    for version in 301..=500 {
        let returned = advance(cx, &source, version).await?;
        ensure!(returned != Advance::Advanced, "version {version} after 500");
        mark_is(cx, &source, Some(500)).await?;
    }
    Ok(())
}

async fn purge_of_marks_keeps_to_its_limit(cx: &Context) -> CaseResult {
    expired(cx, 10).await?;
    for purged in [4, 4, 2, 0] {
        let returned = marks(cx.store())?.delete_expired_watermarks(4).await?;
        ensure_eq!(returned, purged, "purged, four at most");
    }
    Ok(())
}

async fn purges_of_marks_beside_each_other_delete_each_once(cx: &Context) -> CaseResult {
    const MARKS: usize = 40;
    expired(cx, MARKS).await?;
    let purged = race::at_once(cx, vec![(); 6], |store, asked, ()| async move {
        let marks = marks(&store)?;
        let mut total = 0;
        for _ in 0..10 {
            total += race::ask(&asked, || marks.delete_expired_watermarks(7)).await?;
        }
        Ok(total)
    })
    .await?;
    // A deletion may skip marks that another one works on.
    let rest = marks(cx.store())?.delete_expired_watermarks(100).await?;
    let total = purged.iter().sum::<u64>() + rest;
    ensure_eq!(total, MARKS as u64, "purged by all together");
    Ok(())
}
