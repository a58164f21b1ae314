//! The tables of figures: all figures for a terminal, the targets for a page.

use crate::bench::backends::BACKENDS;
use crate::bench::judge::Judged;
use crate::bench::row::number;
use crate::columns::aligned;

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
pub(crate) fn plain(rows: &[Judged]) -> String {
    let reasons = Reasons::of(rows);
    let pair = |both: [Option<f64>; 2], between: &str| {
        let both: Vec<_> = both.into_iter().flatten().map(number).collect();
        both.join(between)
    };
    let line = |judged: &Judged| {
        let row = &judged.row;
        let [idem, base] = row.per_second();
        vec![
            row.path.clone(),
            row.backend.clone(),
            row.callers.to_string(),
            format!("{} {}", number(row.ratio), row.unit)
                .trim()
                .to_owned(),
            pair(row.spread().map_or([None; 2], |both| both.map(Some)), "-"),
            row.baseline.clone(),
            judged
                .target
                .as_ref()
                .map_or_else(String::new, ToString::to_string),
            reasons.verdict(judged),
            idem.map_or_else(String::new, number),
            base.map_or_else(String::new, number),
            pair(row.p99_us(), " : "),
        ]
    };
    let table = aligned(&COLUMNS, rows.iter().map(line).collect());
    format!("{table}\n{}", reasons.listed(rows))
}

/// Returns a line for each path, baseline, number of callers and target, with a column for each
/// backend that has a target.
pub(crate) fn targets(rows: &[Judged]) -> String {
    let reasons = Reasons::of(rows);
    let backends: Vec<_> = BACKENDS
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| {
            let mut with_target = rows.iter().filter(|judged| judged.target.is_some());
            with_target.any(|judged| judged.row.backend == *name)
        })
        .collect();
    let mut lines: Vec<([String; 4], Vec<String>)> = Vec::new();
    for judged in rows {
        let Some(target) = &judged.target else {
            continue;
        };
        let row = &judged.row;
        let head = [
            row.path.clone(),
            row.baseline.clone(),
            row.callers.to_string(),
            target.to_string(),
        ];
        let index = lines.iter().position(|(known, _)| *known == head);
        let index = index.unwrap_or_else(|| {
            lines.push((head, vec![String::new(); backends.len()]));
            lines.len() - 1
        });
        if let Some(column) = backends.iter().position(|name| *name == row.backend) {
            let cell = format!("{} {}", number(row.ratio), reasons.number(judged));
            cell.trim().clone_into(&mut lines[index].1[column]);
        }
    }
    let head = ["path", "against", "callers", "target"];
    let head: Vec<_> = head.into_iter().chain(backends).collect();
    let mut text = format!(
        "| {} |\n|{}\n",
        head.join(" | "),
        " --- |".repeat(head.len())
    );
    for (head, cells) in lines {
        let cells: Vec<_> = head.into_iter().chain(cells).collect();
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    format!("{text}\n{}", reasons.listed(rows))
}

/// The reasons of missed targets: each once, with a number.
struct Reasons(Vec<String>);

impl Reasons {
    fn of(rows: &[Judged]) -> Self {
        let mut all = Vec::new();
        for judged in rows {
            if judged.is_met() == Some(false) && !all.contains(&judged.reason) {
                all.push(judged.reason.clone());
            }
        }
        Self(all)
    }

    /// Returns `[1]`; empty if the target is not missed.
    fn number(&self, judged: &Judged) -> String {
        let missed = judged.is_met() == Some(false);
        let index = self.0.iter().position(|reason| *reason == judged.reason);
        match index.filter(|_| missed) {
            Some(index) => format!("[{}]", index + 1),
            None => String::new(),
        }
    }

    fn verdict(&self, judged: &Judged) -> String {
        match judged.is_met() {
            None => String::new(),
            Some(true) => "met".to_owned(),
            Some(false) => format!("missed {}", self.number(judged)),
        }
    }

    /// Returns how many targets are met, then each reason after its number.
    fn listed(&self, rows: &[Judged]) -> String {
        let verdicts: Vec<_> = rows.iter().filter_map(Judged::is_met).collect();
        let met = verdicts.iter().filter(|is_met| **is_met).count();
        let mut text = format!("{met} of {} targets are met.\n", verdicts.len());
        for (index, reason) in self.0.iter().enumerate() {
            text.push_str(&format!("\n[{}] {reason}\n", index + 1));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::judge::tests::judge;
    use crate::bench::row::tests::row;

    fn rows() -> Vec<Judged> {
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
| path | against | callers | target | postgres | mysql | mongo |
| --- | --- | --- | --- | --- | --- | --- |
| replay | bare held | 8 | >= 0.90 | 0.95 | 0.85 [1] | 0.80 [1] |

1 of 3 targets are met.

[1] Two statements.
";
        assert_eq!(targets(&rows()), expected);
    }
}
