//! Draws the throughput of a report by backend and number of callers: `throughput REPORT FOLDER`.
//!
//! It prints the name of each file that it writes.
//!
//! A chart has a panel for each backend and a line for each contender. Both axes are logarithmic
//! and the same in all panels, so that panels are comparable. Contenders differ in colour (from the
//! palette of Okabe and Ito, which colour-blind readers can distinguish) and in the shape of their
//! marks.

use std::collections::BTreeMap;
use std::error::Error;
use std::ops::Range;
use std::path::Path;

use idem_bench_rows::{BACKENDS, Report, Row};
use plotters::prelude::*;

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

/// The paths of the charts, one chart each.
const PATHS: [&str; 3] = ["claim_fresh", "claim_complete", "replay"];

/// Name, colour and mark; a mark is a polygon around its point.
type Contender = (&'static str, RGBColor, &'static [(i32, i32)]);

const CONTENDERS: [Contender; 3] = [
    (
        "idem",
        RGBColor(0, 114, 178),
        &[(0, -5), (5, 0), (0, 5), (-5, 0)],
    ),
    (
        "bare held",
        RGBColor(60, 60, 60),
        &[(-3, -3), (3, -3), (3, 3), (-3, 3)],
    ),
    (
        "bare pooled",
        RGBColor(0, 158, 115),
        &[(0, 5), (5, -4), (-5, -4)],
    ),
];

/// Operations per second by number of callers, for each of [`CONTENDERS`].
type Lines = [BTreeMap<usize, f64>; CONTENDERS.len()];

const ACROSS: usize = 3;
const PANEL: (u32, u32) = (330, 240);
const TITLE: u32 = 36;
const FONT: &str = "sans-serif";

fn main() -> Result {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [report, folder] = arguments.as_slice() else {
        return Err("throughput REPORT FOLDER".into());
    };
    let report: Report = serde_json::from_slice(&std::fs::read(report)?)?;
    let files = draw(&report.rows, Path::new(folder))?;
    files.iter().for_each(|file| println!("{file}"));
    Ok(())
}

/// Draws each chart that has figures into a folder. Returns the names of the files.
fn draw(rows: &[Row], folder: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for path in PATHS {
        let panels = panels(rows, path);
        if panels.is_empty() {
            continue;
        }
        let name = format!("bench-{}.svg", path.replace('_', "-"));
        chart(&folder.join(&name), path, &panels).map_err(|error| format!("{name}: {error}"))?;
        files.push(name);
    }
    Ok(files)
}

/// Returns the lines of each measured backend.
fn panels(rows: &[Row], path: &str) -> Vec<(&'static str, Lines)> {
    let mut panels = BACKENDS.map(|(name, ..)| (name, Lines::default()));
    for row in rows.iter().filter(|row| row.path == path) {
        let panel = panels.iter_mut().find(|(name, _)| *name == row.backend);
        let Some((_, lines)) = panel else {
            continue;
        };
        for (name, rate) in ["idem", &row.baseline].into_iter().zip(row.per_second()) {
            let index = CONTENDERS.iter().position(|(other, ..)| *other == name);
            if let (Some(index), Some(rate)) = (index, rate) {
                // A contender is in several rows of a run, with the same figures.
                lines[index].entry(row.callers).or_insert(rate);
            }
        }
    }
    let has_points = |(_, lines): &(_, Lines)| lines.iter().any(|line| !line.is_empty());
    panels.into_iter().filter(has_points).collect()
}

fn chart(file: &Path, path: &str, panels: &[(&str, Lines)]) -> Result {
    let across = panels.len().min(ACROSS);
    let down = panels.len().div_ceil(ACROSS);
    let size = (PANEL.0 * across as u32, TITLE + PANEL.1 * down as u32);
    let root = SVGBackend::new(file, size).into_drawing_area();
    root.fill(&WHITE)?;
    let title = format!("{path}: operations per second by number of callers");
    let body = root.titled(&title, (FONT, 16))?;
    let points = || panels.iter().flat_map(|(_, lines)| lines.iter().flatten());
    let callers = powers(2.0, points().map(|(callers, _)| *callers as f64));
    let rates = powers(10.0, points().map(|(_, rate)| *rate));
    let areas = body.split_evenly((down, across));
    for (index, (area, (backend, lines))) in areas.iter().zip(panels).enumerate() {
        let (callers, rates) = (callers.clone().log_scale(), rates.clone().log_scale());
        let mut chart = ChartBuilder::on(area)
            .caption(backend, (FONT, 14))
            .margin(8)
            .x_label_area_size(20)
            .y_label_area_size(44)
            .build_cartesian_2d(callers.base(2.0), rates)?;
        chart
            .configure_mesh()
            .max_light_lines(0)
            .x_labels(6)
            .y_labels(5)
            .label_style((FONT, 12))
            .bold_line_style(BLACK.mix(0.12))
            .x_label_formatter(&|callers| format!("{callers:.0}"))
            .y_label_formatter(&|rate| format!("{rate:.0e}"))
            .draw()?;
        // The store's own line is drawn last, above the others.
        for ((name, colour, mark), line) in CONTENDERS.iter().zip(lines).rev() {
            let points = || line.iter().map(|(callers, rate)| (*callers as f64, *rate));
            let marked = |at| EmptyElement::at(at) + Polygon::new(*mark, colour.filled());
            chart
                .draw_series(LineSeries::new(points(), colour.stroke_width(2)))?
                .label(*name)
                .legend(move |at| EmptyElement::at(at) + Polygon::new(*mark, colour.filled()));
            chart.draw_series(points().map(marked))?;
        }
        // One legend is enough.
        if index == 0 {
            chart
                .configure_series_labels()
                .position(SeriesLabelPosition::LowerRight)
                .background_style(WHITE.mix(0.8))
                .draw()?;
        }
    }
    Ok(root.present()?)
}

/// Returns the powers of the base around all values.
fn powers(base: f64, values: impl Iterator<Item = f64>) -> Range<f64> {
    let (low, high) = values.fold((f64::MAX, f64::MIN_POSITIVE), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    let low = low.log(base).floor();
    base.powf(low)..base.powf(high.log(base).ceil().max(low + 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(text: &str) -> Row {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_chart_is_drawn_where_there_are_figures() {
        let rows = [1, 8, 64, 512].map(|callers| {
            row(&format!(
                r#"{{"path":"replay","backend":"postgres","callers":{callers},"ratio":0.9,
                    "baseline":"bare held",
                    "idem":{{"per_second":{callers}00.5}},"bare":{{"per_second":{callers}10.5}}}}"#
            ))
        });
        let folder = tempfile::tempdir().unwrap();
        let files = draw(&rows, folder.path()).unwrap();
        assert_eq!(files, ["bench-replay.svg"]);
        let drawn = std::fs::read_to_string(folder.path().join(&files[0])).unwrap();
        for word in ["postgres", "idem", "bare held", "callers", "per second"] {
            assert!(drawn.contains(word), "{word}");
        }
        assert!(draw(&[], folder.path()).unwrap().is_empty());
    }

    #[test]
    fn axes_end_at_powers() {
        assert_eq!(powers(2.0, [1.0, 512.0].into_iter()), 1.0..512.0);
        assert_eq!(powers(10.0, [20.0, 90.0].into_iter()), 10.0..100.0);
    }

    #[test]
    fn a_contender_is_one_line_however_many_rows_it_is_in() {
        let rows = [
            r#"{"path":"replay","backend":"redis","callers":8,"ratio":0.9,"baseline":"bare held",
                "idem":{"per_second":90},"bare":{"per_second":100}}"#,
            r#"{"path":"replay","backend":"redis","callers":8,"ratio":1.8,"baseline":"pgbench",
                "idem":{"per_second":91},"bare":{"per_second":50}}"#,
            r#"{"path":"replay","backend":"redis","callers":8,"ratio":2.0,
                "baseline":"bare pooled","idem":{"per_second":92},"bare":{"per_second":40}}"#,
        ];
        let panels = panels(&rows.map(row), "replay");
        let line = |rate| BTreeMap::from([(8, rate)]);
        let lines = [90.0, 100.0, 40.0].map(line);
        assert_eq!(panels, [("redis", lines)]);
    }
}
