//! [`Row`]: a record in a table.

use idem_core::admin::{RecordSummary, SummaryState};

use super::page::part;
use crate::console::Console;
use crate::text::{self, Shown};

pub(super) struct Row {
    pub(super) handle: String,
    pub(super) state: SummaryState,
    pub(super) state_text: &'static str,
    pub(super) id: String,
    pub(super) operation: String,
    pub(super) scope: String,
    pub(super) age: String,
    pub(super) detail: String,
    pub(super) attempts: u32,
    pub(super) bytes: String,
}

impl Row {
    pub(super) fn new(console: &Console, record: &RecordSummary) -> Self {
        Self {
            handle: console.handle(&record.key),
            state: record.state,
            state_text: state_text(record.state),
            id: shown(record.key.id()),
            operation: shown(record.key.operation()),
            scope: shown(record.key.scope()),
            age: text::duration(record.age()),
            detail: detail(record),
            attempts: record.attempts,
            bytes: text::bytes(record.result_bytes),
        }
    }
}

/// Returns the text as HTML.
pub(super) fn shown(text: &str) -> String {
    part(&Shown::new(text))
}

pub(super) fn state_text(state: SummaryState) -> &'static str {
    match state {
        SummaryState::InFlight => "in flight",
        SummaryState::Stale => "stale",
        SummaryState::Completed => "completed",
        SummaryState::Failed => "failed",
        SummaryState::Expired => "expired",
        _ => "unreadable",
    }
}

/// Returns what matters most about a record in its state, as HTML.
fn detail(record: &RecordSummary) -> String {
    let now = record.observed_at;
    if let Some(code) = &record.failure_code {
        return shown(code);
    }
    if let Some(lease) = record.lease_ends_at {
        let lease = match lease > now {
            true => format!("lease ends {}", text::relative(lease, now)),
            false => format!("lease ended {}", text::relative(lease, now)),
        };
        return match &record.checkpoint {
            Some(checkpoint) => format!("{lease}, at {}", shown(checkpoint)),
            None => lease,
        };
    }
    match record.state {
        SummaryState::Expired => format!(
            "since {}",
            text::duration(now.saturating_since(record.expires_at))
        ),
        SummaryState::Completed => format!("expires {}", text::relative(record.expires_at, now)),
        _ => String::new(),
    }
}
