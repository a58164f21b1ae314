use std::collections::BTreeMap;

use crate::bench::row::{Figures, Row};

/// One backend.
#[derive(Debug, PartialEq)]
pub(super) struct Panel {
    pub(super) backend: String,
    pub(super) lines: Vec<Line>,
}

/// One contender: a value for each number of callers.
#[derive(Debug, PartialEq)]
pub(super) struct Line {
    pub(super) contender: Contender,
    pub(super) points: Vec<(f64, f64)>,
}

/// Who is drawn, in the order of the legend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Contender {
    Idem,
    Batched,
    Held,
    Pooled,
    Generator,
}

impl Contender {
    pub(super) const ALL: [Self; 5] = [
        Self::Idem,
        Self::Batched,
        Self::Held,
        Self::Pooled,
        Self::Generator,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Idem => "idem",
            Self::Batched => "idem, coalesced",
            Self::Held => "bare held",
            Self::Pooled => "bare pooled",
            Self::Generator => "the server's load generator",
        }
    }

    fn of_baseline(name: &str) -> Option<Self> {
        match name {
            "bare held" => Some(Self::Held),
            "bare pooled" => Some(Self::Pooled),
            "pgbench" | "redis-benchmark" | "mariadb-slap" => Some(Self::Generator),
            _ => None,
        }
    }
}

/// What rows tell of a path and of the same coalesced, by backend.
pub(super) fn panels(rows: &[Row], path: &str, of: fn(Figures) -> Option<f64>) -> Vec<Panel> {
    let coalesced = format!("{path}_coalesced");
    let mut panels: Vec<Panel> = Vec::new();
    for row in rows {
        let ours = match row.path.as_str() {
            name if name == path => Contender::Idem,
            name if name == coalesced => Contender::Batched,
            _ => continue,
        };
        let sides = [
            (Some(ours), row.idem),
            (Contender::of_baseline(&row.baseline), row.bare),
        ];
        for (contender, figures) in sides {
            if let (Some(contender), Some(value)) = (contender, figures.and_then(of)) {
                put(&mut panels, &row.backend, contender, (row.callers, value));
            }
        }
    }
    panels
}

/// The first value that is told counts: the same contender is in several rows.
fn put(panels: &mut Vec<Panel>, backend: &str, contender: Contender, point: (u64, f64)) {
    let place = panels.iter().position(|panel| panel.backend == backend);
    let place = place.unwrap_or_else(|| {
        panels.push(Panel {
            backend: backend.to_owned(),
            lines: Vec::new(),
        });
        panels.len() - 1
    });
    let lines = &mut panels[place].lines;
    let place = lines.iter().position(|line| line.contender >= contender);
    let place = place.unwrap_or(lines.len());
    if lines
        .get(place)
        .is_none_or(|line| line.contender != contender)
    {
        lines.insert(
            place,
            Line {
                contender,
                points: Vec::new(),
            },
        );
    }
    let points = &mut lines[place].points;
    let callers = point.0 as f64;
    if points.iter().all(|(known, _)| *known != callers) && point.1 > 0.0 {
        points.push((callers, point.1));
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
    }
}

/// The least and the greatest of both coordinates.
pub(super) fn bounds(panels: &[Panel]) -> Option<[(f64, f64); 2]> {
    let lines = panels.iter().flat_map(|panel| &panel.lines);
    let points: BTreeMap<u64, Vec<f64>> = lines.flat_map(|line| &line.points).fold(
        BTreeMap::new(),
        |mut points, (callers, value)| {
            points.entry(*callers as u64).or_default().push(*value);
            points
        },
    );
    let callers = (*points.keys().next()? as f64, *points.keys().last()? as f64);
    let mut values: Vec<f64> = points.into_values().flatten().collect();
    values.sort_by(f64::total_cmp);
    Some([callers, (*values.first()?, *values.last()?)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::row::tests::row;

    #[test]
    fn each_contender_is_one_line_however_many_rows_it_is_in() {
        let rows = [
            r#"{"path":"claim_fresh","backend":"redis","callers":8,"ratio":0.9,"baseline":"bare held",
                "idem":{"per_second":90},"bare":{"per_second":100}}"#,
            r#"{"path":"claim_fresh","backend":"redis","callers":8,"ratio":1.8,"baseline":"bare pooled",
                "idem":{"per_second":91},"bare":{"per_second":50}}"#,
            r#"{"path":"claim_fresh","backend":"redis","callers":1,"ratio":0.9,"baseline":"bare held",
                "idem":{"per_second":9},"bare":{"per_second":10}}"#,
            r#"{"path":"claim_fresh_coalesced","backend":"redis","callers":8,"ratio":2.0,"baseline":"pgbench",
                "idem":{"per_second":200},"bare":{"per_second":100}}"#,
            r#"{"path":"replay","backend":"redis","callers":8,"ratio":2.0,"baseline":"bare held",
                "idem":{"per_second":1},"bare":{"per_second":1}}"#,
        ]
        .map(row);
        let panels = panels(&rows, "claim_fresh", |figures| Some(figures.per_second));
        let [panel] = panels.as_slice() else {
            panic!("one backend: {panels:?}");
        };
        let lines: Vec<_> = panel
            .lines
            .iter()
            .map(|line| (line.contender, line.points.clone()))
            .collect();
        assert_eq!(
            lines,
            [
                (Contender::Idem, vec![(1.0, 9.0), (8.0, 90.0)]),
                (Contender::Batched, vec![(8.0, 200.0)]),
                (Contender::Held, vec![(1.0, 10.0), (8.0, 100.0)]),
                (Contender::Pooled, vec![(8.0, 50.0)]),
                (Contender::Generator, vec![(8.0, 100.0)]),
            ]
        );
        assert_eq!(bounds(&panels), Some([(1.0, 8.0), (9.0, 200.0)]));
        assert_eq!(bounds(&[]), None);
    }
}
