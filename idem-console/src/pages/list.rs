//! The list of records, with its filters.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use idem_core::admin::{Cursor, RecordFilter, RecordSummary, SummaryState};
use idem_core::{ErrorKind, Result};

use super::Problem;
use super::page::{Page, html};
use super::rows::{Row, state_text};
use crate::console::Console;
use crate::form::Fields;
use crate::identity::Identity;
use crate::text;

/// How many records one call of the store looks at.
const PAGE: u32 = 50;
/// A page has this many records, if so many match; at most two pages of the store less one.
const ROWS: usize = 50;
/// Most records that one page looks at.
const MOST: u64 = 5_000;

#[derive(Template)]
#[template(path = "records.html")]
struct List {
    page: Page,
    csrf: String,
    summary: String,
    problem: Option<String>,
    states: Vec<Choice>,
    ages: Vec<Choice>,
    state: String,
    age: String,
    operation: String,
    scope: String,
    code: String,
    rows: Vec<Row>,
    next: Option<String>,
}

struct Choice {
    value: String,
    label: String,
    is_chosen: bool,
}

/// What a person looks for.
#[derive(Default)]
struct Wanted {
    state: String,
    age: String,
    operation: String,
    scope: String,
    code: String,
    cursor: Option<Cursor>,
}

impl Wanted {
    fn filter(&self) -> Result<RecordFilter> {
        let mut filter = RecordFilter::new();
        if !self.state.is_empty() {
            filter = filter.with_state(self.state.parse()?);
        }
        if let Some(seconds) = self.age.parse().ok().filter(|seconds| *seconds > 0) {
            filter = filter.with_min_age(Duration::from_secs(seconds));
        }
        if !self.operation.is_empty() {
            filter = filter.with_operation(&self.operation);
        }
        if !self.scope.is_empty() {
            filter = filter.with_scope(&self.scope);
        }
        if !self.code.is_empty() {
            filter = filter.with_failure_code(&self.code);
        }
        Ok(filter)
    }
}

/// The list by state, which may stand in the address.
pub(crate) async fn records(
    State(console): State<Arc<Console>>,
    Extension(identity): Extension<Identity>,
    RawQuery(query): RawQuery,
) -> Response {
    let query = query.unwrap_or_default();
    let mut query = form_urlencoded::parse(query.as_bytes());
    let state = query.find(|(name, _)| name == "state");
    let wanted = Wanted {
        state: state
            .map(|(_, state)| state.into_owned())
            .unwrap_or_default(),
        ..Wanted::default()
    };
    answer(&console, &identity, wanted).await
}

/// The list by all else, which is sent in a form: it may have keys.
pub(crate) async fn filtered_records(
    State(console): State<Arc<Console>>,
    Extension(identity): Extension<Identity>,
    form: Fields,
) -> Response {
    let wanted = Wanted {
        state: form.get("state").to_owned(),
        age: form.get("age").to_owned(),
        operation: form.get("operation").to_owned(),
        scope: form.get("scope").to_owned(),
        code: form.get("code").to_owned(),
        cursor: form.filled("cursor").map(Cursor::new),
    };
    answer(&console, &identity, wanted).await
}

async fn answer(console: &Console, identity: &Identity, wanted: Wanted) -> Response {
    let listed = list(console, &wanted).await;
    let (listed, problem) = match listed {
        Ok(listed) => (listed, None),
        Err(error) if error.kind() == ErrorKind::InvalidInput => {
            (Listed::default(), Some(error.to_string()))
        }
        Err(error) => return Problem::from(error).into_response(),
    };
    let looked_at = text::count(listed.looked_at);
    let rows = listed
        .records
        .iter()
        .map(|record| Row::new(console, record));
    let choice = |value: String, label: String, chosen: &str| Choice {
        is_chosen: value == chosen,
        value,
        label,
    };
    let states = SummaryState::ALL.into_iter().map(|state| {
        let label = state_text(state).to_owned();
        choice(state.name().to_owned(), label, &wanted.state)
    });
    let ages = [0, 10, 60, 600, 3_600, 86_400].into_iter().map(|seconds| {
        let label = match seconds {
            0 => "at any time".to_owned(),
            seconds => {
                let age = text::duration(Duration::from_secs(seconds));
                format!("{age} ago or longer")
            }
        };
        let value = if seconds == 0 {
            String::new()
        } else {
            seconds.to_string()
        };
        choice(value, label, &wanted.age)
    });
    let page = List {
        page: Page::new(console, "records", identity),
        csrf: identity.csrf.clone(),
        summary: format!("{} shown of {looked_at} looked at", listed.records.len()),
        problem,
        states: states.collect(),
        ages: ages.collect(),
        rows: rows.collect(),
        next: listed.next.map(|cursor| cursor.as_str().to_owned()),
        state: wanted.state,
        age: wanted.age,
        operation: wanted.operation,
        scope: wanted.scope,
        code: wanted.code,
    };
    let status = match page.problem {
        None => StatusCode::OK,
        Some(_) => StatusCode::BAD_REQUEST,
    };
    html(status, &page)
}

#[derive(Default)]
struct Listed {
    records: Vec<RecordSummary>,
    looked_at: u64,
    next: Option<Cursor>,
}

async fn list(console: &Console, wanted: &Wanted) -> Result<Listed> {
    let admin = console.admin()?;
    let filter = wanted.filter()?;
    let mut listed = Listed {
        next: wanted.cursor.clone(),
        ..Listed::default()
    };
    loop {
        let page = admin.list(&filter, listed.next.as_ref(), PAGE).await?;
        listed.records.extend(page.records);
        listed.looked_at += u64::from(page.looked_at);
        listed.next = page.next;
        let is_full = listed.records.len() >= ROWS || listed.looked_at >= MOST;
        // A store may return pages that looked at nothing.
        if listed.next.is_none() || is_full || page.looked_at == 0 {
            return Ok(listed);
        }
    }
}
