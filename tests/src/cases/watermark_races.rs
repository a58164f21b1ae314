//! Watermarks: raced, dropped, and raised by killed processes. Laws 1, 12 and 13.

use std::collections::BTreeMap;

use idem_core::{Advance, Key};
use rand::seq::SliceRandom;

use super::watermark::{advance, mark_is};
use super::watermark_ends::expired;
use crate::cancel::{plan, polled};
use crate::case::cases;
use crate::context::LONG;
use crate::expect::marks;
use crate::failure::{ensure, ensure_eq};
use crate::race::again;
use crate::worker::{Report, Step, Worker};
use crate::{CaseError, CaseResult, Context, race};

cases! { LAW01, law 1:
    the_highest_of_racing_versions_stands [Watermarks],
    of_racing_equal_versions_one_advances [Watermarks],
    the_highest_of_versions_racing_for_an_expired_mark_stands [Watermarks],
    of_equal_versions_racing_for_an_expired_mark_one_advances [Watermarks],
    racing_processes_raise_each_mark_once_to_each_version [Watermarks, SharedBetweenProcesses],
}

cases! { LAW12, law 12:
    what_a_killed_process_raised_is_there [Watermarks, SharedBetweenProcesses, Durable],
    a_mark_is_there_after_reopening [Watermarks, Durable],
}

cases! { LAW13, law 13:
    a_dropped_advance_raises_the_mark_or_not [Watermarks],
    a_dropped_first_advance_marks_the_source_or_not [Watermarks],
    a_dropped_look_at_a_mark_changes_nothing [Watermarks],
    a_dropped_purge_of_marks_deletes_nothing_live [Watermarks],
}

const TASKS: u64 = 64;

/// Advances to each version at the same moment, and returns each outcome.
async fn race(cx: &Context, source: &Key, versions: &[u64]) -> CaseResult<Vec<(u64, Advance)>> {
    let items = versions
        .iter()
        .map(|version| (source.clone(), *version))
        .collect();
    race::at_once(cx, items, |store, asked, (source, version)| async move {
        let marks = marks(&store)?;
        let returned = race::ask(&asked, || marks.advance(&source, version, LONG)).await?;
        if let Advance::Stale { current } = returned {
            ensure!(current > version, "{version} is stale after {current}");
        }
        Ok((version, returned))
    })
    .await
}

/// Checks that the outcomes fit one order of the calls: the highest advanced, and no version
/// advanced twice.
async fn the_highest_stands(cx: &Context, source: &Key) -> CaseResult {
    let mut versions: Vec<_> = (1..=TASKS).collect();
    versions.shuffle(&mut cx.rng());
    let returned = race(cx, source, &versions).await?;
    mark_is(cx, source, Some(TASKS)).await?;
    for (version, returned) in &returned {
        ensure!(
            *returned != Advance::Unchanged,
            "{version} was unchanged, and is there once"
        );
        ensure!(
            *version < TASKS || *returned == Advance::Advanced,
            "the highest: {returned:?}"
        );
        if let Advance::Stale { current } = returned {
            let raised = versions.contains(current);
            ensure!(raised, "{version} was told of {current}, which nobody sent");
        }
    }
    Ok(())
}

async fn one_advances(cx: &Context, source: &Key, version: u64) -> CaseResult {
    let returned = race(cx, source, &[version; TASKS as usize]).await?;
    let count = |wanted| {
        returned
            .iter()
            .filter(|(_, returned)| *returned == wanted)
            .count() as u64
    };
    ensure_eq!(
        count(Advance::Advanced),
        1,
        "told that they raised the mark"
    );
    ensure_eq!(
        count(Advance::Unchanged),
        TASKS - 1,
        "told that it was there"
    );
    mark_is(cx, source, Some(version)).await
}

async fn the_highest_of_racing_versions_stands(cx: &Context) -> CaseResult {
    for round in 0..3 {
        let source = cx.key(format!("round {round}"));
        if round == 1 {
            advance(cx, &source, 0).await?;
        }
        the_highest_stands(cx, &source).await?;
    }
    Ok(())
}

async fn of_racing_equal_versions_one_advances(cx: &Context) -> CaseResult {
    for round in 0..3 {
        let source = cx.key(format!("round {round}"));
        for version in [0, 1, 7] {
            one_advances(cx, &source, version).await?;
        }
    }
    Ok(())
}

async fn the_highest_of_versions_racing_for_an_expired_mark_stands(cx: &Context) -> CaseResult {
    for source in expired(cx, 3).await? {
        the_highest_stands(cx, &source).await?;
    }
    Ok(())
}

async fn of_equal_versions_racing_for_an_expired_mark_one_advances(cx: &Context) -> CaseResult {
    // Versions lower than, equal to and higher than the expired one.
    for (source, version) in expired(cx, 3).await?.iter().zip([4, 9, 12]) {
        one_advances(cx, source, version).await?;
    }
    Ok(())
}

async fn racing_processes_raise_each_mark_once_to_each_version(cx: &Context) -> CaseResult {
    const PROCESSES: usize = 4;
    const VERSIONS: u64 = 40;
    let sources = ["one", "two"].map(|id| cx.key(id));
    let step = |version: u64| Step::Advance {
        source: sources[usize::from(version % 2 == 1)].clone(),
        version,
        retention: LONG,
    };
    // All workers send the same versions, about in order, so that they meet at each.
    let steps: Vec<_> = [Step::Wait]
        .into_iter()
        .chain((0..VERSIONS).map(step))
        .collect();
    let mut workers = Vec::new();
    for _ in 0..PROCESSES {
        workers.push(Worker::start(cx, steps.clone()).await?);
    }
    for worker in &mut workers {
        worker.until_ready().await?;
    }
    for worker in &mut workers {
        worker.go().await?;
    }
    let mut raised = BTreeMap::<u64, usize>::new();
    for worker in &mut workers {
        for (version, report) in (0..VERSIONS).zip(worker.rest().await?) {
            let Report::Advanced(returned) = report else {
                return Err(CaseError::new(format!("not an advance, but {report:?}")));
            };
            *raised.entry(version).or_default() += usize::from(returned == Advance::Advanced);
        }
    }
    ensure_eq!(raised.len() as u64, VERSIONS, "versions");
    let twice = raised.iter().find(|(_, count)| **count > 1);
    ensure_eq!(twice, None, "raised twice");
    for (source, last) in [(&sources[0], VERSIONS - 2), (&sources[1], VERSIONS - 1)] {
        ensure_eq!(raised.get(&last), Some(&1), "raised to the highest");
        mark_is(cx, source, Some(last)).await?;
    }
    Ok(())
}

async fn what_a_killed_process_raised_is_there(cx: &Context) -> CaseResult {
    let source = cx.key("source");
    let step = |version| Step::Advance {
        source: source.clone(),
        version,
        retention: LONG,
    };
    let steps = (1..500).map(step).collect();
    let mut worker = Worker::start(cx, steps).await?;
    for _ in 0..20 {
        worker.report().await?;
    }
    worker.kill().await?;
    let returned = 20 + worker.rest().await?.len() as u64;
    let mark = marks(cx.store())?.watermark(&source).await?;
    ensure!(
        mark >= Some(returned.min(499)),
        "told {returned}, and the mark is {mark:?}"
    );
    Ok(())
}

async fn a_mark_is_there_after_reopening(cx: &Context) -> CaseResult {
    let source = cx.key("source");
    marks(&cx.open().await?)?.advance(&source, 5, LONG).await?;
    let reopened = cx.open().await?;
    ensure_eq!(
        marks(&reopened)?.watermark(&source).await?,
        Some(5),
        "the mark"
    );
    let returned = marks(&reopened)?.advance(&source, 5, LONG).await?;
    ensure_eq!(returned, Advance::Unchanged, "asked again");
    Ok(())
}

/// Repeats an advance that may not have taken effect.
async fn ask_again(cx: &Context, source: &Key, finished: Option<Advance>) -> CaseResult {
    let marks = marks(cx.store())?;
    let returned = again(cx, || marks.advance(source, 5, LONG)).await?;
    ensure!(!returned.is_stale(), "its own mark is stale: {returned:?}");
    if let Some(first) = finished {
        ensure_eq!(first, Advance::Advanced, "the first answer");
        ensure_eq!(returned, Advance::Unchanged, "the second answer");
    }
    mark_is(cx, source, Some(5)).await?;
    ensure_eq!(
        advance(cx, source, 4).await?,
        Advance::Stale { current: 5 },
        "an older one"
    );
    Ok(())
}

async fn a_dropped_advance_raises_the_mark_or_not(cx: &Context) -> CaseResult {
    for polls in plan() {
        let source = cx.key(format!("{polls} polls"));
        advance(cx, &source, 2).await?;
        let dropped = marks(cx.store())?.advance(&source, 5, LONG);
        let finished = polled(dropped, polls).await.transpose()?;
        let mark = marks(cx.store())?.watermark(&source).await?;
        ensure!([Some(2), Some(5)].contains(&mark), "the mark is {mark:?}");
        ask_again(cx, &source, finished).await?;
        if finished.is_some() {
            return Ok(());
        }
    }
    Err(CaseError::new("the advance never finished by itself"))
}

async fn a_dropped_first_advance_marks_the_source_or_not(cx: &Context) -> CaseResult {
    for polls in plan() {
        let source = cx.key(format!("{polls} polls"));
        let dropped = marks(cx.store())?.advance(&source, 5, LONG);
        let finished = polled(dropped, polls).await.transpose()?;
        let mark = marks(cx.store())?.watermark(&source).await?;
        ensure!([None, Some(5)].contains(&mark), "the mark is {mark:?}");
        ask_again(cx, &source, finished).await?;
        if finished.is_some() {
            return Ok(());
        }
    }
    Err(CaseError::new("the advance never finished by itself"))
}

async fn a_dropped_look_at_a_mark_changes_nothing(cx: &Context) -> CaseResult {
    let source = cx.key("source");
    advance(cx, &source, 5).await?;
    for polls in plan() {
        let look = marks(cx.store())?.watermark(&source);
        let finished = polled(look, polls).await.transpose()?;
        mark_is(cx, &source, Some(5)).await?;
        if finished.is_some() {
            return Ok(());
        }
    }
    Err(CaseError::new("the look never finished by itself"))
}

async fn a_dropped_purge_of_marks_deletes_nothing_live(cx: &Context) -> CaseResult {
    let live = cx.key("live");
    advance(cx, &live, 5).await?;
    for polls in plan() {
        let source = cx.key(format!("{polls} polls"));
        marks(cx.store())?.advance(&source, 9, cx.short()).await?;
        super::watermark::until_unmarked(cx, &source).await?;
        let dropped = marks(cx.store())?.delete_expired_watermarks(100);
        let finished = polled(dropped, polls).await.transpose()?;
        let marks = marks(cx.store())?;
        again(cx, || marks.delete_expired_watermarks(100)).await?;
        mark_is(cx, &live, Some(5)).await?;
        let returned = again(cx, || marks.advance(&source, 1, LONG)).await?;
        ensure_eq!(returned, Advance::Advanced, "after the purge");
        if finished.is_some() {
            return Ok(());
        }
    }
    Err(CaseError::new("the purge never finished by itself"))
}
