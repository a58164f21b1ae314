//! The table of ratios: for a terminal and for a page.

use crate::bench::grid::Grid;
use crate::bench::row::{Row, number};

const COLUMNS: [&str; 11] = [
    "path", "backend", "callers#", "ratio#", "spread#", "to", "target#", "verdict", "idem/s#",
    "base/s#", "p99 us#",
];

/// Every row, then how many targets are met, then why the others are not.
pub(crate) fn plain(rows: &[Row]) -> String {
    let reasons = Reasons::of(rows);
    format!("{}\n{}", grid(rows, &reasons).plain(), reasons.told(rows))
}

/// The rows that something is asked of, how many of them are met, why the others are not; then the other rows.
pub(crate) fn markdown(rows: &[Row]) -> String {
    let reasons = Reasons::of(rows);
    let (asked, others): (Vec<Row>, Vec<Row>) =
        rows.iter().cloned().partition(|row| row.target.is_some());
    format!(
        "### Targets\n\n{}\n{}\n### Other figures\n\n{}",
        grid(&asked, &reasons).markdown(),
        reasons.told(rows),
        grid(&others, &reasons).markdown()
    )
}

fn grid(rows: &[Row], reasons: &Reasons) -> Grid {
    let mut grid = Grid::new(&COLUMNS);
    let per_second = |figures: Option<super::row::Figures>| {
        figures.map_or_else(String::new, |figures| number(figures.per_second))
    };
    for row in rows {
        let p99 = |figures: Option<super::row::Figures>| {
            figures
                .and_then(|figures| figures.p99_us)
                .map_or_else(String::new, number)
        };
        let both = [p99(row.idem), p99(row.bare)].join(" : ");
        grid.push(vec![
            row.path.clone(),
            row.backend.clone(),
            row.callers.to_string(),
            row.value(),
            row.spread(),
            row.baseline.clone(),
            row.target(),
            reasons.verdict(row),
            per_second(row.idem),
            per_second(row.bare),
            both.trim_matches([' ', ':']).to_owned(),
        ]);
    }
    grid
}

/// Why targets are missed: each reason once, with a number.
struct Reasons(Vec<String>);

impl Reasons {
    fn of(rows: &[Row]) -> Self {
        let mut all = Vec::new();
        let is_missed = |row: &&Row| row.target.is_some() && row.met != Some(true);
        for row in rows.iter().filter(is_missed) {
            let reason = reason(row);
            if !all.contains(&reason) {
                all.push(reason);
            }
        }
        Self(all)
    }

    fn verdict(&self, row: &Row) -> String {
        match (row.target, row.met) {
            (None, _) => String::new(),
            (Some(_), Some(true)) => "met".to_owned(),
            (Some(_), _) => {
                let reason = reason(row);
                let place = self.0.iter().position(|known| *known == reason);
                format!("missed [{}]", place.map_or(0, |place| place + 1))
            }
        }
    }

    fn told(&self, rows: &[Row]) -> String {
        let asked = rows.iter().filter(|row| row.target.is_some());
        let met = asked.clone().filter(|row| row.met == Some(true)).count();
        let mut text = format!("{met} of {} targets are met.\n", asked.count());
        for (place, reason) in self.0.iter().enumerate() {
            text.push_str(&format!("\n[{}] {reason}\n", place + 1));
        }
        text
    }
}

fn reason(row: &Row) -> String {
    let reason = row.reason.trim();
    let reason = if reason.is_empty() {
        "not explained"
    } else {
        reason
    };
    reason.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::row::tests::row;

    fn rows() -> Vec<Row> {
        [
            r#"{"path":"replay","backend":"postgres","callers":8,"ratio":0.95,"baseline":"bare held","target":0.9,
                "bound":"at_least","met":true,"reason":"",
                "idem":{"per_second":9500,"p99_us":300},"bare":{"per_second":10000,"p99_us":280}}"#,
            r#"{"path":"replay","backend":"mysql","callers":8,"ratio":0.85,"baseline":"bare held","target":0.9,
                "bound":"at_least","met":false,"reason":"two statements"}"#,
            r#"{"path":"replay","backend":"mongo","callers":8,"ratio":0.8,"baseline":"bare held","target":0.9,
                "bound":"at_least","met":false,"reason":"two statements"}"#,
            r#"{"path":"payload_1024","backend":"mysql","callers":8,"ratio":0.85,"baseline":"bare held"}"#,
        ]
        .map(row)
        .into()
    }

    #[test]
    fn a_missed_target_has_its_reason_under_the_table() {
        let expected = "\
path          backend   callers  ratio  spread  to         target  verdict     idem/s  base/s     p99 us
replay        postgres        8   0.95          bare held  >= 0.90  met          9 500  10 000  300 : 280
";
        let text = plain(&rows());
        assert_eq!(text.lines().count(), 9, "{text}");
        let words = |line: &str| {
            line.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            words(text.lines().nth(1).unwrap()),
            words(expected.lines().nth(1).unwrap())
        );
        assert!(text.contains("missed [1]") && !text.contains("missed [2]"));
        assert!(
            text.ends_with("1 of 3 targets are met.\n\n[1] two statements\n"),
            "{text}"
        );
    }

    #[test]
    fn a_page_has_the_targets_first() {
        let text = markdown(&rows());
        let (targets, others) = text.split_once("### Other figures").unwrap();
        assert!(targets.contains("mysql") && !targets.contains("payload_1024"));
        assert!(others.contains("payload_1024") && !others.contains("replay"));
    }

    #[test]
    fn a_missed_target_without_a_reason_is_told_as_such() {
        let mut rows = rows();
        rows[1].reason.clear();
        assert!(plain(&rows).contains("[1] not explained\n"));
    }
}
