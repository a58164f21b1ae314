//! [`Report`]: the result, for people and for machines.

use std::io::{Write, stdout};
use std::sync::Arc;

use serde_json::{Value, json};

use super::args::Args;
use super::audit::{Audit, Violation};
use super::lane::Storm;
use super::number::{count, grouped, millis, time};
use super::point::Point;
use super::table::Table;
use super::tally::Tally;

/// The maximum number of keys at fault that are listed.
const MAX_LISTED: usize = 20;

/// All facts at the end of a run.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) args: Args,
    pub(crate) seed: u64,
    /// The store's name for itself.
    pub(crate) store: &'static str,
    /// Name and version of its product.
    pub(crate) product: String,
    /// The store's URL without a password.
    pub(crate) shown: String,
    /// The location of the data, if it was kept.
    pub(crate) kept: Option<String>,
    pub(crate) storm: Arc<Storm>,
    pub(crate) tally: Tally,
    pub(crate) audit: Audit,
}

impl Report {
    /// Returns whether every effect happened exactly once and every answer was true.
    pub(crate) fn is_clean(&self) -> bool {
        self.audit.violations.is_empty()
    }

    /// Writes everything to standard output. If that fails, the exit status still shows the
    /// result.
    pub(crate) fn print(&self, with_json: bool) {
        let mut text = format!("{}\n{}\n{}", self.head(), self.table(), self.conclusion());
        if let Some(kept) = &self.kept {
            text += &format!("Left behind: {kept}.\n");
        }
        if with_json {
            text += &format!("{}\n", self.json());
        }
        let mut out = stdout().lock();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    fn head(&self) -> String {
        let Args {
            processes,
            concurrency,
            ..
        } = self.args;
        format!(
            "{} ({}), {} × {concurrency} at once, seed {}\n",
            self.product,
            self.shown,
            count_processes(processes),
            self.seed
        )
    }

    fn table(&self) -> Table {
        let Self { tally, audit, .. } = self;
        let mut table = Table::default();
        table.row("requests", grouped(self.requests()), self.about_requests());
        table.row(
            "deliveries",
            grouped(tally.answered),
            format!("{} per second", grouped(tally.per_second().round() as u64)),
        );
        table.row("effects", grouped(audit.effects), self.about_effects());
        table.row(
            "replays",
            grouped(tally.replays),
            "the stored answer, byte for byte",
        );
        table.row(
            "conflicts",
            grouped(tally.conflicts),
            "another payload under the same key: refused",
        );
        table.row(
            "waits",
            grouped(tally.waits),
            "met a request that was being worked on",
        );
        table.row(
            "takeovers",
            grouped(audit.takeovers),
            "of a claim whose lease had ended",
        );
        table.row(
            "crashes",
            grouped(tally.all_crashes()),
            self.about_crashes(),
        );
        table.row(
            "latency p50",
            time(tally.latency(0.50)),
            "from first sending to answer",
        );
        table.row(
            "latency p99",
            time(tally.latency(0.99)),
            "crashes and waits included",
        );
        table.row("elapsed", time(tally.elapsed), "");
        table
    }

    fn requests(&self) -> u64 {
        self.storm.workload.keys.len() as u64
    }

    fn about_requests(&self) -> String {
        let workload = &self.storm.workload;
        let mut remark = format!("each delivered {} times", self.args.retries);
        let lines = workload.lines.len() as u64;
        if lines != self.requests() {
            remark = format!("from {}, {remark}", count(lines, "line"));
        }
        if workload.refused > 0 {
            remark += &format!("; {} refused", count(workload.refused, "bad line"));
        }
        remark
    }

    fn about_effects(&self) -> String {
        let lost = self.audit.effects.saturating_sub(self.tally.fresh);
        match (lost, self.tally.fenced) {
            (0, 0) => String::new(),
            (lost, 0) => format!(
                "{} lost in a crash and replayed later",
                count(lost, "answer")
            ),
            (lost, fenced) => format!(
                "{} lost in a crash, {} refused",
                count(lost, "answer"),
                count(fenced, "late commit")
            ),
        }
    }

    fn about_crashes(&self) -> String {
        let mut counts = self.tally.crashes.iter();
        let mut remarks: Vec<String> = Point::ALL
            .iter()
            .zip(counts.by_ref())
            .filter(|(_, count)| **count > 0)
            .map(|(point, count)| format!("{} {}", point.name(), grouped(*count)))
            .collect();
        if let Some(unplanned @ 1..) = counts.next() {
            remarks.push(format!("not planned {}", grouped(*unplanned)));
        }
        remarks.join(", ")
    }

    fn conclusion(&self) -> String {
        let violations = &self.audit.violations;
        if violations.is_empty() {
            return "Every effect happened exactly once.\n".to_owned();
        }
        let mut text = format!(
            "VIOLATED for {} of {}:\n",
            grouped(violations.len() as u64),
            count(self.requests(), "request")
        );
        for Violation { key, reason, .. } in violations.iter().take(MAX_LISTED) {
            text += &format!("  {key}: {reason}\n");
        }
        if violations.len() > MAX_LISTED {
            let more = grouped((violations.len() - MAX_LISTED) as u64);
            text += &format!("  and {more} more\n");
        }
        text
    }

    fn json(&self) -> Value {
        let Self {
            args, tally, audit, ..
        } = self;
        let crashes: serde_json::Map<String, Value> = Point::ALL
            .iter()
            .map(|point| (point.name().to_owned(), tally.crashes[point.index()].into()))
            .collect();
        let offending: Vec<Value> = audit
            .violations
            .iter()
            .take(MAX_LISTED)
            .map(|Violation { key, reason, rows }| json!({"key": key, "reason": reason, "effects": rows}))
            .collect();
        json!({
            "requests": self.requests(),
            "deliveries": tally.answered,
            "effects": audit.effects,
            "violations": audit.violations.len(),
            "offending": offending,
            "replays": tally.replays,
            "waits": tally.waits,
            "conflicts": tally.conflicts,
            "takeovers": audit.takeovers,
            "crashes": tally.all_crashes(),
            "crashes_by_point": crashes,
            "fresh": tally.fresh,
            "fenced": tally.fenced,
            "refused_lines": self.storm.workload.refused,
            "p50_ms": millis(tally.latency(0.50)),
            "p99_ms": millis(tally.latency(0.99)),
            "deliveries_per_second": (tally.per_second() * 10.0).round() / 10.0,
            "seconds": millis(tally.elapsed).round() / 1e3,
            "seed": self.seed,
            "plan": self.storm.plan.digest.to_string(),
            "store": self.store,
            "product": self.product,
            "processes": args.processes,
            "concurrency": args.concurrency,
            "retries": args.retries,
            "crash_rate": args.crash_rate,
            "conflict_rate": args.conflict_rate,
            "sabotage": args.sabotage,
        })
    }
}

fn count_processes(number: u32) -> String {
    match number {
        1 => "1 process".to_owned(),
        number => format!("{number} processes"),
    }
}
