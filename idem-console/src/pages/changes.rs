//! The forced steps of all keys.

use std::sync::Arc;

use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use idem_core::Result;
use idem_core::admin::{AUDIT_OPERATION, RecordFilter, RecordSummary, SummaryState};

use super::Problem;
use super::page::{Page, html};
use super::record::Step;
use super::rows::shown;
use crate::console::Console;
use crate::identity::Identity;
use crate::text;

/// How many records one call of the store looks at.
const PAGE: u32 = 1_000;
/// Most steps on the page.
const LISTED: usize = 100;

#[derive(Template)]
#[template(path = "changes.html")]
struct Changes {
    page: Page,
    summary: String,
    history: Vec<Step>,
}

pub(crate) async fn changes(
    State(console): State<Arc<Console>>,
    Extension(identity): Extension<Identity>,
) -> Response {
    let (entries, looked_at, is_complete) = match entries(&console).await {
        Ok(found) => found,
        Err(error) => return Problem::from(error).into_response(),
    };
    let bound = if is_complete { "all" } else { "the first" };
    let page = Changes {
        page: Page::new(&console, "changes", &identity),
        summary: format!(
            "the latest first, of {bound} {} records",
            text::count(looked_at)
        ),
        history: entries.iter().map(step).collect(),
    };
    html(StatusCode::OK, &page)
}

async fn entries(console: &Console) -> Result<(Vec<RecordSummary>, u64, bool)> {
    let admin = console.admin()?;
    let filter = RecordFilter::new().with_operation(AUDIT_OPERATION);
    let (mut entries, mut looked_at, mut cursor) = (Vec::new(), 0, None);
    loop {
        let page = admin.list(&filter, cursor.as_ref(), PAGE).await?;
        entries.extend(page.records);
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.created_at));
        entries.truncate(LISTED);
        looked_at += u64::from(page.looked_at);
        cursor = page.next;
        let is_complete = cursor.is_none();
        if is_complete || looked_at >= console.options.most_looked_at {
            return Ok((entries, looked_at, is_complete));
        }
    }
}

/// An entry has the step in its metadata, and the key only as a digest.
fn step(entry: &RecordSummary) -> Step {
    let text = |name| entry.metadata.get(name).unwrap_or_default();
    let outcome = match entry.state {
        SummaryState::Completed => "",
        _ => " (outcome unknown)",
    };
    Step {
        at: text::instant(entry.created_at),
        who: shown(text("who")),
        action: format!("{}{outcome}", text("action")),
        reason: shown(text("reason")),
        before: format!("token {}", text("token")),
    }
}
