//! One record.

use std::sync::Arc;

use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use idem_core::admin::{AUDIT_OPERATION, AuditEntry, AuditOutcome, RecordSummary, SummaryState};
use idem_core::{IdempotencyStoreExt, Key, Record, Result, StalePolicy};

use super::Problem;
use super::change::{Action, Kind};
use super::page::{Fact, Page, html};
use super::rows::{shown, state_text};
use crate::console::Console;
use crate::form::Fields;
use crate::identity::Identity;
use crate::text;

/// Most bytes of a result that a page shows.
const SHOWN_BYTES: usize = 64 << 10;

#[derive(Template)]
#[template(path = "record.html")]
struct RecordPage {
    page: Page,
    csrf: String,
    who: String,
    handle: String,
    id: String,
    operation: String,
    scope: String,
    record: Option<Details>,
    result: Option<ResultView>,
    history: Vec<Step>,
}

struct Details {
    state: SummaryState,
    state_text: &'static str,
    facts: Vec<Fact>,
    metadata: Vec<Fact>,
    has_result: bool,
    actions: Vec<Action>,
}

struct ResultView {
    title: String,
    headers: Vec<Fact>,
    body: String,
    note: Option<String>,
}

/// A forced step in a table. All texts but `at`, `action` and `before` are HTML.
pub(super) struct Step {
    pub(super) at: String,
    pub(super) who: String,
    pub(super) action: String,
    pub(super) reason: String,
    pub(super) before: String,
}

impl Step {
    fn new(entry: &AuditEntry) -> Self {
        let outcome = match entry.outcome {
            AuditOutcome::Done => "",
            AuditOutcome::Unknown => " (outcome unknown)",
        };
        let before = entry.before.as_ref();
        let state = before.map_or("", |before| state_text(before.state));
        Self {
            at: text::instant(entry.at),
            who: shown(&entry.who),
            action: format!("{}{outcome}", entry.action),
            reason: shown(&entry.reason),
            before: format!("{state} token {}", entry.token.as_i64())
                .trim()
                .to_owned(),
        }
    }
}

/// Finds the key of a form: by its handle, its path, or its three parts.
pub(super) fn key(console: &Console, form: &Fields) -> Result<Key, Problem> {
    if let Some(handle) = form.filled("record") {
        return console.key(handle).ok_or_else(|| {
            let text = "The console has forgotten which record this was. List the records again.";
            Problem::new(StatusCode::GONE, text)
        });
    }
    let key = match form.filled("path") {
        Some(path) => Key::from_path(path),
        None => Key::stored(form.get("scope"), form.get("operation"), form.get("id")),
    };
    Ok(key?)
}

pub(crate) async fn record(
    State(console): State<Arc<Console>>,
    Extension(identity): Extension<Identity>,
    form: Fields,
) -> Response {
    match answer(&console, &identity, &form, false).await {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    }
}

/// The record with its result, where the console may show results.
pub(crate) async fn result(
    State(console): State<Arc<Console>>,
    Extension(identity): Extension<Identity>,
    form: Fields,
) -> Response {
    if !console.options.shows_results {
        let text = "This console does not show results.";
        return Problem::new(StatusCode::FORBIDDEN, text).into_response();
    }
    match answer(&console, &identity, &form, true).await {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    }
}

async fn answer(
    console: &Console,
    identity: &Identity,
    form: &Fields,
    with_result: bool,
) -> Result<Response, Problem> {
    let key = key(console, form)?;
    let summary = console.admin()?.summary(&key).await?;
    let result = match with_result {
        true => console.store.get(&key).await?.as_ref().and_then(view),
        false => None,
    };
    let history = console.store.history(&key).await?;
    let page = RecordPage {
        page: Page::new(console, "records", identity),
        csrf: identity.csrf.clone(),
        who: identity.who.clone(),
        handle: console.handle(&key),
        id: shown(key.id()),
        operation: shown(key.operation()),
        scope: shown(key.scope()),
        record: summary.as_ref().map(details),
        result,
        history: history.iter().map(Step::new).collect(),
    };
    Ok(html(StatusCode::OK, &page))
}

/// Returns what a record says of itself. Values are HTML.
pub(super) fn facts(record: &RecordSummary) -> Vec<Fact> {
    let now = record.observed_at;
    let at = |instant| {
        let relative = text::relative(instant, now);
        format!("{} ({relative})", text::instant(instant))
    };
    let mut facts = vec![
        Fact::new("State", state_text(record.state)),
        Fact::new("Token", record.token.as_i64().to_string()),
        Fact::new("Attempts", record.attempts.to_string()),
        Fact::new("First seen", at(record.created_at)),
    ];
    if let Some(lease) = record.lease_ends_at {
        let name = if lease > now {
            "Lease ends"
        } else {
            "Lease ended"
        };
        facts.push(Fact::new(name, at(lease)));
        let then = match record.on_stale {
            StalePolicy::Fail => "the next claim fails it",
            _ => "the next claim takes over",
        };
        facts.push(Fact::new("After the lease", then));
    }
    if let Some(sealed) = record.sealed_at {
        facts.push(Fact::new("Sealed", at(sealed)));
    }
    if let Some(code) = &record.failure_code {
        facts.push(Fact::new("Failure code", shown(code)));
    }
    if let Some(checkpoint) = &record.checkpoint {
        facts.push(Fact::new("Checkpoint", shown(checkpoint)));
    }
    let expires = if record.expires_at > now {
        "Expires"
    } else {
        "Expired"
    };
    facts.push(Fact::new(expires, at(record.expires_at)));
    let size = match record.lease_ends_at {
        Some(_) => "Size of the checkpoint",
        None => "Size of the result",
    };
    facts.push(Fact::new(size, text::bytes(record.result_bytes)));
    facts
}

fn details(record: &RecordSummary) -> Details {
    let fact = |(name, value): (&str, &str)| Fact {
        name: shown(name),
        value: shown(value),
        unit: "",
    };
    let is_audit = record.key.operation() == AUDIT_OPERATION;
    let kinds = Kind::ALL.into_iter();
    let kinds = kinds.filter(|kind| !is_audit && kind.applies_to(record.state));
    Details {
        state: record.state,
        state_text: state_text(record.state),
        facts: facts(record),
        metadata: record.metadata.iter().map(fact).collect(),
        has_result: matches!(record.state, SummaryState::Completed | SummaryState::Failed),
        actions: kinds.map(Kind::action).collect(),
    }
}

fn view(record: &Record) -> Option<ResultView> {
    let fact = |name: &str, value: &[u8]| Fact {
        name: shown(name),
        value: shown(&String::from_utf8_lossy(value)),
        unit: "",
    };
    let (title, headers, body) = match record {
        Record::Completed(completed) => {
            let response = &completed.response;
            let headers = response.headers().iter();
            let headers = headers.map(|(name, value)| fact(name, value)).collect();
            (
                format!("status {}", response.status()),
                headers,
                response.body(),
            )
        }
        Record::Failed(failed) => {
            let failure = &failed.failure;
            let headers = vec![
                fact("code", failure.code().as_bytes()),
                fact("message", failure.message().as_bytes()),
            ];
            ("failure".to_owned(), headers, failure.details())
        }
        _ => return None,
    };
    let part = &body[..body.len().min(SHOWN_BYTES)];
    let is_text = std::str::from_utf8(part).is_ok();
    let note = match (is_text, part.len() < body.len()) {
        (_, true) => Some(format!(
            "The first {} of {}.",
            text::bytes(part.len() as u64),
            text::bytes(body.len() as u64)
        )),
        (false, false) => Some("Not UTF-8: bytes that are none show as �.".to_owned()),
        (true, false) => None,
    };
    Some(ResultView {
        title: format!("{title}, {}", text::bytes(body.len() as u64)),
        headers,
        body: body_text(&String::from_utf8_lossy(part)),
        note,
    })
}

/// Returns a body as HTML; its line breaks stay.
fn body_text(body: &str) -> String {
    let lines: Vec<String> = body
        .split('\n')
        .map(|line| shown(line.trim_end_matches('\r')))
        .collect();
    lines.join("\n")
}
