//! The overview, and the stream that renews it.

use std::convert::Infallible;
use std::sync::Arc;

use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use http::StatusCode;
use idem_core::admin::SummaryState;
use idem_core::engine::observe::names;

use super::Problem;
use super::page::{Fact, Page, html, part};
use super::rows::{Row, state_text};
use crate::console::Console;
use crate::growth::{Sparkline, sparkline};
use crate::identity::Identity;
use crate::metrics::{DECISIONS, Quantile, Traffic};
use crate::sample::{AGES, Snapshot};
use crate::text;

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    page: Page,
    csrf: String,
    live: String,
}

/// The part of the overview that is renewed.
#[derive(Template)]
#[template(path = "live.html")]
struct Live {
    base: String,
    error: Option<String>,
    bounded: Option<String>,
    tiles: Vec<Tile>,
    ages: Vec<Bar>,
    traffic: Option<TrafficView>,
    in_flight: Vec<Row>,
    failed: Vec<Row>,
    since: String,
    charts: [Chart; 2],
    backlog: String,
}

struct Tile {
    state: SummaryState,
    label: &'static str,
    count: String,
    hint: String,
}

struct Bar {
    label: String,
    count: String,
    percent: u64,
    is_old: bool,
}

struct TrafficView {
    window: String,
    facts: Vec<Fact>,
    missing: Option<String>,
}

struct Chart {
    label: &'static str,
    now: String,
    change: String,
    line: Sparkline,
}

pub(crate) async fn overview(
    State(console): State<Arc<Console>>,
    Extension(identity): Extension<Identity>,
) -> Response {
    let Some(snapshot) = console.snapshot().await else {
        let text = "The store has not answered yet. Load the page again.";
        return Problem::new(StatusCode::SERVICE_UNAVAILABLE, text).into_response();
    };
    let page = Overview {
        page: Page::new(&console, "overview", &identity),
        csrf: identity.csrf.clone(),
        live: part(&live(&console, &snapshot)),
    };
    html(StatusCode::OK, &page)
}

/// Sends the live part after each sample, until the session is over.
pub(crate) async fn events(
    State(console): State<Arc<Console>>,
    Extension(identity): Extension<Identity>,
) -> Response {
    let Ok(permit) = Arc::clone(&console.streams).try_acquire_owned() else {
        let text = "Too many overviews are open. This one is not renewed by itself.";
        return Problem::new(StatusCode::SERVICE_UNAVAILABLE, text).into_response();
    };
    let latest = console.latest.subscribe();
    // The sampler is idle while nobody looks.
    console.wanted.notify_one();
    let start = (console, identity, latest, permit, true);
    let events = stream::unfold(
        start,
        async |(console, identity, mut latest, permit, goes)| {
            if !goes {
                return None;
            }
            latest.changed().await.ok()?;
            let is_over = identity.is_over(&console);
            let event = match is_over {
                true => Event::default().event("over").data("-"),
                false => {
                    let snapshot = latest.borrow_and_update().clone()?;
                    let html = part(&live(&console, &snapshot));
                    let at = snapshot.records.at.map(text::instant).unwrap_or_default();
                    // As JSON, because a line of an event ends where a text has a carriage return.
                    let data = serde_json::json!({ "html": html, "at": at });
                    Event::default().event("overview").data(data.to_string())
                }
            };
            let state = (console, identity, latest, permit, !is_over);
            Some((Ok::<_, Infallible>(event), state))
        },
    );
    // Proxies that follow nginx would keep events until a buffer is full.
    let unbuffered = [("x-accel-buffering", "no")];
    let events = Sse::new(events).keep_alive(KeepAlive::default());
    (unbuffered, events).into_response()
}

fn live(console: &Console, snapshot: &Snapshot) -> Live {
    let records = &snapshot.records;
    let rows = |records: &[_]| {
        let rows = records.iter().map(|record| Row::new(console, record));
        rows.collect::<Vec<Row>>()
    };
    let points = snapshot.growth.points();
    let since = match points.first() {
        Some(first) => format!("over {}", text::duration(first.at.elapsed())),
        None => String::new(),
    };
    let bounded = (!records.is_complete && records.looked_at > 0).then(|| {
        let looked_at = text::count(records.looked_at);
        format!("The store has more records than the {looked_at} that are looked at. All numbers are of those.")
    });
    let at_least = if bounded.is_some() { "at least " } else { "" };
    let expired = records.count(SummaryState::Expired);
    let backlog = match expired {
        0 => "Nothing waits for the purge.".to_owned(),
        expired => format!(
            "Purge backlog: {at_least}{} expired, {} of results, not deleted yet.",
            text::count(expired),
            text::bytes(records.expired_bytes)
        ),
    };
    Live {
        base: console.options.base_path.clone(),
        error: snapshot.error.clone(),
        bounded,
        tiles: SummaryState::ALL.map(|state| tile(snapshot, state)).into(),
        ages: bars(records.ages),
        traffic: snapshot.traffic.as_ref().map(view),
        in_flight: rows(&records.in_flight),
        failed: rows(&records.failed),
        since,
        charts: [
            chart(snapshot, "Records", text::count, |point| point.records),
            chart(snapshot, "Results", text::bytes, |point| point.bytes),
        ],
        backlog,
    }
}

fn tile(snapshot: &Snapshot, state: SummaryState) -> Tile {
    let hint = match state {
        SummaryState::InFlight => "held under a lease",
        SummaryState::Stale => "the lease is over",
        SummaryState::Completed => "replayed to retries",
        SummaryState::Failed => "failure is final",
        SummaryState::Expired => "wait for the purge",
        _ => "written by others",
    };
    Tile {
        state,
        label: state_text(state),
        count: text::count(snapshot.records.count(state)),
        hint: hint.to_owned(),
    }
}

fn bars<const N: usize>(ages: [u64; N]) -> Vec<Bar> {
    let most = ages.iter().copied().max().unwrap_or(0).max(1);
    let label = |group: usize| match (AGES.get(group), group.checked_sub(1)) {
        (Some(bound), None) => format!("under {}", text::duration(*bound)),
        (Some(bound), Some(before)) => format!(
            "{} – {}",
            text::duration(AGES[before]),
            text::duration(*bound)
        ),
        (None, _) => format!("over {}", text::duration(AGES[AGES.len() - 1])),
    };
    let bar = |(group, count): (usize, u64)| Bar {
        label: label(group),
        count: text::count(count),
        // One of a million still shows.
        percent: (count * 100).div_ceil(most),
        is_old: group + 2 >= N,
    };
    ages.into_iter().enumerate().map(bar).collect()
}

fn view((traffic, missing): &(Traffic, usize)) -> TrafficView {
    let runs = |name: &str, decisions: &[&'static str]| Fact {
        unit: "/s",
        ..Fact::new(name, text::rate(traffic.rate(names::DECISIONS, decisions)))
    };
    let counted = |name: &str, metric| Fact::new(name, text::count(traffic.count(metric) as u64));
    let quantile = |quantile: Option<Quantile>| match quantile {
        Some(Quantile::Seconds(seconds)) => text::latency(seconds),
        Some(Quantile::Above(seconds)) => format!("> {}", text::latency(seconds)),
        None => "–".to_owned(),
    };
    let facts = vec![
        runs("Claims", &DECISIONS),
        runs("New", &["new"]),
        runs("Replays", &["duplicate", "failed"]),
        runs("Takeovers", &["takeover"]),
        runs("In flight elsewhere", &["in_flight"]),
        runs("Conflicts", &["conflict"]),
        Fact::new("p50 to seal", quantile(traffic.p50)),
        Fact::new("p99 to seal", quantile(traffic.p99)),
        Fact::new("Waiting now", text::count(traffic.waiters as u64)),
        counted("Claims lost", names::LEASE_LOSSES),
        Fact::new(
            "Unsettled",
            text::rate(traffic.rate(names::ENDINGS, &["unsettled"])),
        ),
        counted("Answers not stored", names::UNSTORED),
        counted("Store retries", names::STORE_RETRIES),
    ];
    TrafficView {
        window: match traffic.window.as_secs() {
            0 => "rates need a second reading".to_owned(),
            _ => format!("last {}", text::duration(traffic.window)),
        },
        facts,
        missing: (*missing > 0).then(|| match missing {
            1 => "A page of metrics cannot be read.".to_owned(),
            missing => format!("{missing} pages of metrics cannot be read."),
        }),
    }
}

fn chart(
    snapshot: &Snapshot,
    label: &'static str,
    shown: fn(u64) -> String,
    value: fn(&crate::growth::Point) -> u64,
) -> Chart {
    let points = snapshot.growth.points();
    let (first, last) = match (points.first(), points.last()) {
        (Some(first), Some(last)) => (value(first), value(last)),
        _ => (0, 0),
    };
    let change = match last.cmp(&first) {
        std::cmp::Ordering::Equal => "unchanged".to_owned(),
        std::cmp::Ordering::Greater => format!("+{}", shown(last - first)),
        std::cmp::Ordering::Less => format!("−{}", shown(first - last)),
    };
    let began = points.first().map(|point| point.at);
    let values: Vec<(f64, f64)> = points
        .iter()
        .filter_map(|point| {
            let seconds = (point.at - began?).as_secs_f64();
            Some((seconds, value(point) as f64))
        })
        .collect();
    Chart {
        label,
        now: shown(last),
        change,
        line: sparkline(&values),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_labels_without_gaps() {
        let bars = bars([10, 0, 1, 0, 5]);
        let labels: Vec<_> = bars.iter().map(|bar| bar.label.as_str()).collect();
        assert_eq!(
            labels,
            [
                "under 10 s",
                "10 s – 1 min",
                "1 min – 10 min",
                "10 min – 1 h",
                "over 1 h"
            ]
        );
        let percents: Vec<_> = bars.iter().map(|bar| bar.percent).collect();
        assert_eq!(percents, [100, 0, 10, 0, 50]);
    }
}
