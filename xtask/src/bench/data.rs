//! `docs/performance.csv`: every figure, one row per line.

use std::path::Path;

use serde::Serialize;

use crate::Result;
use crate::bench::judge::Judged;
use crate::bench::row::number;

/// The columns, which `docs/performance.md` describes.
#[derive(Serialize)]
struct Line<'j> {
    path: &'j str,
    backend: &'j str,
    callers: u64,
    baseline: &'j str,
    ratio: String,
    low: Option<String>,
    high: Option<String>,
    unit: &'j str,
    target: Option<String>,
    verdict: Option<&'static str>,
    idem_per_second: Option<String>,
    baseline_per_second: Option<String>,
    idem_p99_us: Option<String>,
    baseline_p99_us: Option<String>,
}

impl<'j> Line<'j> {
    fn of(judged: &'j Judged) -> Self {
        let row = &judged.row;
        let [low, high] = row.spread().map_or([None; 2], |both| both.map(Some));
        let [idem_rate, baseline_rate] = row.per_second();
        let [idem_p99, baseline_p99] = row.p99_us();
        let verdict = |is_met| if is_met { "met" } else { "missed" };
        Self {
            path: &row.path,
            backend: &row.backend,
            callers: row.callers,
            baseline: &row.baseline,
            ratio: number(row.ratio),
            low: low.map(number),
            high: high.map(number),
            unit: &row.unit,
            target: judged.target.as_ref().map(ToString::to_string),
            verdict: judged.is_met().map(verdict),
            idem_per_second: idem_rate.map(number),
            baseline_per_second: baseline_rate.map(number),
            idem_p99_us: idem_p99.map(number),
            baseline_p99_us: baseline_p99.map(number),
        }
    }
}

/// Writes the file.
///
/// # Errors
///
/// An error when it cannot be written.
pub(crate) fn write(rows: &[Judged], file: &Path) -> Result {
    let mut writer = csv::Writer::from_path(file)?;
    for row in rows {
        writer.serialize(Line::of(row))?;
    }
    Ok(writer.flush()?)
}
