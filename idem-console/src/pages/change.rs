//! Forced steps: the page that asks, and the one that answers.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use idem_core::admin::{Forced, ForcedAction, ForcedStep, RecordSummary, SummaryState};
use idem_core::{Error, Failure, FencingToken, Key, Result};

use super::Problem;
use super::page::{Fact, Page, html};
use super::record::{facts, key};
use super::rows::{shown, state_text};
use crate::console::Console;
use crate::form::Fields;
use crate::guard::too_often;
use crate::identity::Identity;
use crate::text;

/// A kind of step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Release,
    Fail,
    Delete,
}

/// A step that a record's page offers.
pub(super) struct Action {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) text: &'static str,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Release, Self::Fail, Self::Delete];

    fn of(name: &str) -> Result<Self, Problem> {
        let mut all = Self::ALL.into_iter();
        let kind = all.find(|kind| kind.action().name == name);
        kind.ok_or_else(|| Problem::new(StatusCode::BAD_REQUEST, "There is no such step."))
    }

    pub(super) fn applies_to(self, state: SummaryState) -> bool {
        let is_held = matches!(state, SummaryState::InFlight | SummaryState::Stale);
        match self {
            Self::Release | Self::Fail => is_held,
            Self::Delete => matches!(state, SummaryState::Completed | SummaryState::Failed),
        }
    }

    pub(super) const fn action(self) -> Action {
        let (name, title, text) = match self {
            Self::Release => (
                "release",
                "Release",
                "Frees the key: the next claim runs the work again. Make sure that the holder's work has had no effect.",
            ),
            Self::Fail => (
                "fail",
                "Fail",
                "Seals the record with a failure, which later claims get. The holder's result is refused.",
            ),
            Self::Delete => (
                "delete",
                "Delete",
                "Forgets the result, so that the next claim runs the work again. Make sure that this is what you want.",
            ),
        };
        Action { name, title, text }
    }
}

#[derive(Template)]
#[template(path = "confirm.html")]
struct Confirm {
    page: Page,
    csrf: String,
    title: &'static str,
    text: &'static str,
    facts: Vec<Fact>,
    handle: String,
    action: &'static str,
    token: i64,
    reason: String,
    code: String,
    message: String,
    hours: String,
}

#[derive(Template)]
#[template(path = "forced.html")]
struct Answer {
    page: Page,
    csrf: String,
    title: &'static str,
    action: &'static str,
    is_done: bool,
    text: String,
    facts: Vec<Fact>,
    handle: String,
}

/// Shows which record, in which state and with which token, the step would meet.
pub(crate) async fn confirm(
    State(console): State<Arc<Console>>,
    Extension(identity): Extension<Identity>,
    form: Fields,
) -> Response {
    match ask(&console, &identity, &form).await {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    }
}

/// Takes the step, if the record has still the token of the page before.
pub(crate) async fn force(
    State(console): State<Arc<Console>>,
    Extension(identity): Extension<Identity>,
    form: Fields,
) -> Response {
    if let Err(problem) = allowed(&console) {
        return problem.into_response();
    }
    if let Err(wait) = console.changes.take(identity.client.address) {
        return too_often(wait);
    }
    match take(&console, &identity, &form).await {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    }
}

fn allowed(console: &Console) -> Result<(), Problem> {
    match console.options.may_change {
        true => Ok(()),
        false => Err(Problem::new(
            StatusCode::FORBIDDEN,
            "This console is read-only.",
        )),
    }
}

async fn ask(console: &Console, identity: &Identity, form: &Fields) -> Result<Response, Problem> {
    allowed(console)?;
    let kind = Kind::of(form.get("action"))?;
    let key = key(console, form)?;
    let Some(record) = console.admin()?.summary(&key).await? else {
        let text = "The key is free by now: there is nothing to change.";
        return Err(Problem::new(StatusCode::CONFLICT, text));
    };
    if !kind.applies_to(record.state) {
        let state = state_text(record.state);
        let text = format!("The record is {state} by now. Open it again.");
        return Err(Problem::new(StatusCode::CONFLICT, text));
    }
    // Refuses here what the step would refuse.
    let step = step(identity, form, &key, record.token)?;
    let action = kind.action();
    let page = Confirm {
        page: Page::new(console, "records", identity),
        csrf: identity.csrf.clone(),
        title: action.title,
        text: action.text,
        facts: about(&step, &record),
        handle: console.handle(&key),
        action: action.name,
        token: record.token.as_i64(),
        reason: form.get("reason").to_owned(),
        code: form.get("code").to_owned(),
        message: form.get("message").to_owned(),
        hours: form.get("hours").to_owned(),
    };
    Ok(html(StatusCode::OK, &page))
}

async fn take(console: &Console, identity: &Identity, form: &Fields) -> Result<Response, Problem> {
    let kind = Kind::of(form.get("action"))?;
    let key = key(console, form)?;
    let token = form.get("token").parse().map_err(|_| {
        Problem::new(
            StatusCode::BAD_REQUEST,
            "The form has no token of a record.",
        )
    })?;
    let step = step(identity, form, &key, FencingToken::from_i64(token))?;
    let forced = console.admin()?.force(&step).await?;
    let is_done = matches!(forced, Forced::Done { .. });
    let key_hash = key.hashed();
    tracing::info!(who = %step.who(), step = kind.action().name, is_done, key_hash, "forced step");
    let (title, text, facts) = match &forced {
        Forced::Done { before } => {
            let text = match kind {
                Kind::Release | Kind::Delete => {
                    "The key is free. A late result of the old holder is refused."
                }
                Kind::Fail => "The record has failed. A late result of the old holder is refused.",
            };
            ("Done", text.to_owned(), about(&step, before))
        }
        Forced::Refused { current } => {
            let text = match current {
                None => "Nothing was changed: the key is free.",
                Some(_) => {
                    "Nothing was changed: the record is not any more as you have seen it. This is what it is now."
                }
            };
            let facts = current.as_ref().map(facts).unwrap_or_default();
            ("Refused", text.to_owned(), facts)
        }
    };
    let page = Answer {
        page: Page::new(console, "records", identity),
        csrf: identity.csrf.clone(),
        title,
        action: kind.action().title,
        is_done,
        text,
        facts,
        handle: console.handle(&key),
    };
    let status = if is_done {
        StatusCode::OK
    } else {
        StatusCode::CONFLICT
    };
    Ok(html(status, &page))
}

fn step(identity: &Identity, form: &Fields, key: &Key, token: FencingToken) -> Result<ForcedStep> {
    let action = match form.get("action") {
        "release" => ForcedAction::Release,
        "delete" => ForcedAction::Delete,
        _ => {
            let hours: u64 = form.get("hours").parse().unwrap_or(0);
            let code = form.get("code").trim();
            if code.is_empty() || code.len() > 255 || !(1..=87_600).contains(&hours) {
                return Err(Error::invalid_input(
                    "a failure needs a code of 1 to 255 bytes, and 1 to 87,600 hours for which it is replayed",
                ));
            }
            ForcedAction::Fail {
                failure: Failure::new(code, form.get("message")),
                retention: Duration::from_secs(hours * 3_600),
            }
        }
    };
    ForcedStep::new(
        key.clone(),
        token,
        action,
        identity.who.clone(),
        form.get("reason").trim(),
    )
}

/// Returns what a step does to which record. Values are HTML.
fn about(step: &ForcedStep, record: &RecordSummary) -> Vec<Fact> {
    let key = step.key();
    let mut about = vec![
        Fact::new("Id", shown(key.id())),
        Fact::new("Operation", shown(key.operation())),
        Fact::new("Scope", shown(key.scope())),
        Fact::new("State", state_text(record.state)),
        Fact::new("Token", step.token().as_i64().to_string()),
        Fact::new("Age", text::duration(record.age())),
        Fact::new("By", shown(step.who())),
        Fact::new("Reason", shown(step.reason())),
    ];
    if let ForcedAction::Fail { failure, retention } = step.action() {
        about.push(Fact::new("Failure code", shown(failure.code())));
        about.push(Fact::new("Message", shown(failure.message())));
        about.push(Fact::new("Replayed for", text::duration(*retention)));
    }
    about
}
