//! Throughput and latency by backend and concurrency, as SVG.
//!
//! A panel for each backend, a line for each contender. Both axes are logarithmic and the same in all panels of a chart,
//! so that panels compare. The colours are those of Okabe and Ito, which people tell apart who are blind to some, and
//! each contender has a mark of its own beside its colour.

mod draw;
mod panel;

use std::path::Path;

use crate::Result;
use crate::bench::row::{Figures, Row};
use draw::Scale;
use panel::panels;

/// A path in words, and the bare statement beside it.
const PATHS: [(&str, &str); 3] = [
    ("claim_fresh", "claim of a fresh key"),
    ("claim_complete", "claim and completion"),
    ("replay", "replay"),
];

/// What is drawn of it.
struct Quantity {
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    of: fn(Figures) -> Option<f64>,
}

const QUANTITIES: [Quantity; 2] = [
    Quantity {
        name: "throughput",
        title: "operations a second (more is better)",
        unit: "operations / s",
        of: |figures| Some(figures.per_second),
    },
    Quantity {
        name: "p99",
        title: "99th percentile of latency (less is better)",
        unit: "µs",
        of: |figures| figures.p99_us,
    },
];

/// Draws each chart that there are figures for into a folder; the names of their files.
///
/// # Errors
///
/// A file cannot be written.
pub(crate) fn draw(rows: &[Row], folder: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for (path, words) in PATHS {
        for quantity in &QUANTITIES {
            let panels = panels(rows, path, quantity.of);
            let Some(scale) = Scale::around(&panels, quantity.unit) else {
                continue;
            };
            let name = format!("bench-{}-{}.svg", path.replace('_', "-"), quantity.name);
            let title = format!("{words}: {}", quantity.title);
            draw::chart(&folder.join(&name), &title, &panels, &scale)
                .map_err(|error| format!("{name}: {error}"))?;
            files.push(name);
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::row::tests::row;

    #[test]
    fn a_chart_is_drawn_where_there_are_figures() {
        let rows: Vec<_> = [1, 8, 64, 512]
            .map(|callers| {
                row(&format!(
                    r#"{{"path":"replay","backend":"postgres","callers":{callers},"ratio":0.9,"baseline":"bare held",
                        "idem":{{"per_second":{0}00.5,"p99_us":900}},"bare":{{"per_second":{0}10.5}}}}"#,
                    callers * 3
                ))
            })
            .into();
        let folder = std::env::temp_dir().join(format!("idem-chart-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let files = draw(&rows, &folder).unwrap();
        assert_eq!(
            files,
            ["bench-replay-throughput.svg", "bench-replay-p99.svg"]
        );
        let drawn = std::fs::read_to_string(folder.join(&files[0])).unwrap();
        for word in ["postgres", "idem", "bare held", "callers", "operations / s"] {
            assert!(drawn.contains(word), "{word}");
        }
        assert!(draw(&[], &folder).unwrap().is_empty());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
