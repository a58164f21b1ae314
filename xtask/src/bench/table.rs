//! The tables of figures: all figures for a terminal and for the data file, the targets for a page.

use std::collections::HashMap;

use idem_bench_rows::BACKENDS;

use crate::bench::judge::{Judged, Judgement, Verdict, number};
use crate::row::aligned;

/// Returns the columns of `docs/performance.csv`, which `docs/performance.md` describes, and the
/// cells of a row; one without a value is empty.
pub(crate) fn cells(judged: &Judged) -> [(&'static str, String); 14] {
    let Judged { row, target } = judged;
    let optional = |value: Option<f64>| value.map_or_else(String::new, number);
    let [low, high] = row.spread().map_or([None; 2], |both| both.map(Some));
    let [idem_rate, baseline_rate] = row.per_second();
    let [idem_p99, baseline_p99] = row.p99_us();
    let (target, verdict) = match target {
        None => (String::new(), ""),
        Some((target, Verdict::Met)) => (target.to_string(), "met"),
        Some((target, Verdict::Missed(_))) => (target.to_string(), "missed"),
    };
    [
        ("path", row.path.clone()),
        ("backend", row.backend.clone()),
        ("callers", row.callers.to_string()),
        ("baseline", row.baseline.clone()),
        ("ratio", number(row.ratio)),
        ("low", optional(low)),
        ("high", optional(high)),
        ("unit", row.unit.clone()),
        ("target", target),
        ("verdict", verdict.to_owned()),
        ("idem_per_second", optional(idem_rate)),
        ("baseline_per_second", optional(baseline_rate)),
        ("idem_p99_us", optional(idem_p99)),
        ("baseline_p99_us", optional(baseline_p99)),
    ]
}

/// Columns of the terminal's table, and which of them are numbers.
const COLUMNS: [(&str, bool); 11] = [
    ("path", false),
    ("backend", false),
    ("callers", true),
    ("ratio", true),
    ("spread", true),
    ("to", false),
    ("target", true),
    ("verdict", false),
    ("idem/s", true),
    ("base/s", true),
    ("p99 us", true),
];

/// Returns every row, then how many targets are met, then the reasons of the misses.
pub(crate) fn plain(judgement: &Judgement) -> String {
    let joined = |cells: [String; 2], between: &str| {
        let cells = cells.into_iter().filter(|cell| !cell.is_empty());
        cells.collect::<Vec<_>>().join(between)
    };
    let line = |judged: &Judged| {
        let cells = cells(judged).map(|(_, cell)| cell);
        let [path, backend, callers, base, figures @ ..] = cells;
        let [ratio, low, high, unit, target, verdict, rates @ ..] = figures;
        let [idem_rate, base_rate, idem_p99, base_p99] = rates;
        vec![
            path,
            backend,
            callers,
            joined([ratio, unit], " "),
            joined([low, high], "-"),
            base,
            target,
            joined([verdict, reason(judged)], " "),
            idem_rate,
            base_rate,
            joined([idem_p99, base_p99], " : "),
        ]
    };
    let table = aligned(&COLUMNS, judgement.rows.iter().map(line).collect());
    format!("{table}\n{}", reasons(judgement))
}

/// Returns a line for each path, baseline, number of callers and target, with a column for each
/// backend that has a target.
pub(crate) fn targets(judgement: &Judgement) -> String {
    let mut lines: Vec<([String; 4], HashMap<&str, String>)> = Vec::new();
    for judged in &judgement.rows {
        let row = &judged.row;
        let Some((target, _)) = &judged.target else {
            continue;
        };
        let (path, against) = (row.path.clone(), row.baseline.clone());
        let head = [path, against, row.callers.to_string(), target.to_string()];
        let cell = format!("{} {}", number(row.ratio), reason(judged));
        let cell = (row.backend.as_str(), cell.trim().to_owned());
        match lines.iter_mut().find(|(known, _)| *known == head) {
            Some((_, cells)) => cells.extend([cell]),
            None => lines.push((head, HashMap::from([cell]))),
        }
    }
    let backends = BACKENDS.iter().map(|(name, ..)| *name);
    let is_measured = |name: &&str| lines.iter().any(|(_, cells)| cells.contains_key(name));
    let backends: Vec<_> = backends.filter(is_measured).collect();
    let head = ["path", "against", "callers", "target"].into_iter();
    let head: Vec<_> = head.chain(backends.iter().copied()).collect();
    // Without spaces: most cells are empty.
    let rule = "---|".repeat(head.len());
    let mut text = format!("|{}|\n|{rule}\n", head.join("|"));
    for (head, mut cells) in lines {
        let cells = backends.iter().map(|name| cells.remove(name));
        let cells = cells.map(Option::unwrap_or_default);
        let cells: Vec<_> = head.into_iter().chain(cells).collect();
        text.push_str(&format!("|{}|\n", cells.join("|")));
    }
    format!("{text}\n{}", reasons(judgement))
}

/// Returns the number of the reason, such as `[1]`; empty if the target is not missed.
fn reason(judged: &Judged) -> String {
    match judged.target {
        Some((_, Verdict::Missed(number))) => format!("[{number}]"),
        _ => String::new(),
    }
}

/// Returns how many targets are met, then each reason after its number.
fn reasons(judgement: &Judgement) -> String {
    let verdicts = judgement.rows.iter();
    let verdicts = verdicts.filter_map(|judged| Some(judged.target.as_ref()?.1));
    let met = verdicts.clone().filter(|verdict| *verdict == Verdict::Met);
    let mut text = format!("{} of {} targets are met.\n", met.count(), verdicts.count());
    for (number, reason) in (1..).zip(&judgement.reasons) {
        text.push_str(&format!("\n[{number}] {reason}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::judge::tests::{judge, row};

    fn rows() -> Judgement {
        let rows = [
            r#"{"path":"replay","backend":"postgres","callers":8,"ratio":0.95,"baseline":"bare held",
                "idem":{"per_second":9500,"p99_us":300},"bare":{"per_second":10000,"p99_us":280}}"#,
            r#"{"path":"replay","backend":"mysql","callers":8,"ratio":0.85,"baseline":"bare held"}"#,
            r#"{"path":"replay","backend":"mongo","callers":8,"ratio":0.8,"baseline":"bare held",
                "spread":[0.7,0.9]}"#,
            r#"{"path":"payload_1024","backend":"mysql","callers":8,"ratio":412,"unit":"bytes"}"#,
        ];
        judge().judge(rows.map(row).into())
    }

    #[test]
    fn a_terminal_shows_every_row_in_columns() {
        let expected = "\
path          backend   callers      ratio     spread  to          target  verdict     idem/s  base/s     p99 us
replay        postgres        8       0.95             bare held  >= 0.90  met           9500   10000  300 : 280
replay        mysql           8       0.85             bare held  >= 0.90  missed [1]
replay        mongo           8       0.80  0.70-0.90  bare held  >= 0.90  missed [1]
payload_1024  mysql           8  412 bytes

1 of 3 targets are met.

[1] Two statements.
";
        let text = plain(&rows());
        let text: Vec<_> = text.lines().map(str::trim_end).collect();
        assert_eq!(text, expected.lines().collect::<Vec<_>>());
    }

    #[test]
    fn a_page_has_a_column_for_each_backend_with_targets() {
        let expected = "\
|path|against|callers|target|postgres|mysql|mongo|
|---|---|---|---|---|---|---|
|replay|bare held|8|>= 0.90|0.95|0.85 [1]|0.80 [1]|

1 of 3 targets are met.

[1] Two statements.
";
        assert_eq!(targets(&rows()), expected);
    }
}
