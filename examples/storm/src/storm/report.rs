//! [`Report`]: the result, for people and for machines.

use std::collections::BTreeMap;
use std::io::{Write, stdout};
use std::time::Duration;

use idem_core::Fingerprint;
use serde_json::{Value, json};

use super::args::Args;
use super::audit::{Audit, Violation};
use super::plan::Workload;
use super::probe::Point;
use super::tally::Tally;
use crate::report::{Count, Report as Table};

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
    pub(crate) workload: Workload,
    /// The digest of the plan.
    pub(crate) plan: Fingerprint,
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
        let mut text = format!("{}\n{}", self.table(), self.conclusion());
        if let Some(kept) = &self.kept {
            text += &format!("Left behind: {kept}.\n");
        }
        if with_json {
            text += &format!("{}\n", self.json());
        }
        let mut out = stdout().lock();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    fn table(&self) -> Table {
        let Self { tally, audit, .. } = self;
        let (processes, concurrency) = (self.args.processes, self.args.concurrency);
        let plural = if processes == 1 { "" } else { "es" };
        let mut table = Table::new(format!(
            "{} ({}), {processes} process{plural} × {concurrency} at once, seed {}",
            self.product, self.shown, self.seed
        ));
        table.rows(&format!(
            "requests\t{}\t{}\n\
             deliveries\t{}\t{} per second\n\
             effects\t{}\t{}\n\
             replays\t{}\tthe stored answer, byte for byte\n\
             conflicts\t{}\tanother payload under the same key: refused\n\
             waits\t{}\tmet a request that was being worked on\n\
             takeovers\t{}\tof a claim whose lease had ended\n\
             crashes\t{}\t{}",
            Count(self.requests()),
            self.about_requests(),
            Count(tally.answered),
            Count(tally.per_second().round() as u64),
            Count(audit.effects),
            self.about_effects(),
            Count(tally.replays),
            Count(tally.conflicts),
            Count(tally.waits),
            Count(audit.takeovers),
            Count(tally.all_crashes()),
            self.about_crashes(),
        ));
        let [median, slow] = [0.50, 0.99].map(|quantile| tally.latency(quantile));
        table.time("latency p50", median, "from first sending to answer");
        table.time("latency p99", slow, "crashes and waits included");
        table.time("elapsed", tally.elapsed, "");
        table
    }

    fn requests(&self) -> u64 {
        self.workload.keys.len() as u64
    }

    fn about_requests(&self) -> String {
        let workload = &self.workload;
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
        let answers = count(lost, "answer");
        match (lost, self.tally.fenced) {
            (0, 0) => String::new(),
            (_, 0) => format!("{answers} lost in a crash and replayed later"),
            (_, late) => {
                let commits = count(late, "late commit");
                format!("{answers} lost in a crash, {commits} refused")
            }
        }
    }

    fn about_crashes(&self) -> String {
        let names = Point::ALL.iter().map(|point| point.name());
        let counts = names.chain(["not planned"]).zip(self.tally.crashes);
        let remarks: Vec<String> = counts
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| format!("{name} {}", Count(count)))
            .collect();
        remarks.join(", ")
    }

    fn conclusion(&self) -> String {
        let violations = &self.audit.violations;
        if violations.is_empty() {
            return "Every effect happened exactly once.\n".to_owned();
        }
        let mut text = format!(
            "VIOLATED for {} of {}:\n",
            Count(violations.len() as u64),
            count(self.requests(), "request")
        );
        for Violation { key, reason, .. } in self.listed() {
            text += &format!("  {key}: {reason}\n");
        }
        if violations.len() > MAX_LISTED {
            let more = Count((violations.len() - MAX_LISTED) as u64);
            text += &format!("  and {more} more\n");
        }
        text
    }

    fn listed(&self) -> &[Violation] {
        let violations = &self.audit.violations;
        &violations[..violations.len().min(MAX_LISTED)]
    }

    fn json(&self) -> Value {
        let (args, tally, audit) = (&self.args, &self.tally, &self.audit);
        let names = Point::ALL.map(Point::name);
        let crashes: BTreeMap<_, _> = names.into_iter().zip(tally.crashes).collect();
        json!({
            "requests": self.requests(),
            "deliveries": tally.answered,
            "effects": audit.effects,
            "violations": audit.violations.len(),
            "offending": self.listed(),
            "replays": tally.replays,
            "waits": tally.waits,
            "conflicts": tally.conflicts,
            "takeovers": audit.takeovers,
            "crashes": tally.all_crashes(),
            "crashes_by_point": crashes,
            "fresh": tally.fresh,
            "fenced": tally.fenced,
            "refused_lines": self.workload.refused,
            "p50_ms": millis(tally.latency(0.50)),
            "p99_ms": millis(tally.latency(0.99)),
            "deliveries_per_second": (tally.per_second() * 10.0).round() / 10.0,
            "seconds": millis(tally.elapsed).round() / 1e3,
            "seed": self.seed,
            "plan": self.plan.to_string(),
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

/// `1 request`, `2 requests`.
fn count(number: u64, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", Count(number))
}

/// Milliseconds with three digits after the point.
fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_are_counted() {
        let shown = [1, 2_000].map(|number| count(number, "line"));
        assert_eq!(shown, ["1 line", "2,000 lines"]);
    }
}
