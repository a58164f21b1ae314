//! The generated part of `docs/performance.md`, and the files beside it.

use crate::Result;
use crate::bench::judge::Judgement;
use crate::bench::report::Report;
use crate::bench::table;
use crate::page::{self, EVIDENCE};

const PAGE: &str = "docs/performance.md";
const DATA: &str = "docs/performance.csv";

/// Writes the targets into the page, which shows these charts, and every figure into the data file.
///
/// # Errors
///
/// An error when the page is missing or has no markers, or a file cannot be written.
pub(crate) fn write(report: &Report, judgement: &Judgement, charts: &[String]) -> Result {
    let mut data = csv::Writer::from_path(DATA)?;
    let lines: Vec<_> = judgement.rows.iter().map(table::cells).collect();
    if let Some(line) = lines.first() {
        data.write_record(line.each_ref().map(|(column, _)| *column))?;
    }
    for line in lines {
        data.write_record(line.map(|(_, cell)| cell))?;
    }
    data.flush()?;
    page::write(PAGE, "bench", &figures(report, judgement, charts))?;
    page::write(EVIDENCE, "bench", &servers(report))?;
    println!("    {PAGE}, {EVIDENCE}, {DATA}, {}", charts.join(", "));
    Ok(())
}

/// Returns the servers, and when they were measured.
fn servers(report: &Report) -> String {
    let mut text = format!("Measured {}.\n\n", page::on(&report.machine));
    text.push_str("| server | product and version | settings |\n| --- | --- | --- |\n");
    for server in &report.servers {
        let version = server.version.as_deref().unwrap_or("of unknown version");
        text.push_str(&format!(
            "| {} | {} {version} | {} |\n",
            server.name, server.product, server.settings
        ));
    }
    text
}

fn figures(report: &Report, judgement: &Judgement, charts: &[String]) -> String {
    let machine = &report.machine;
    let mut text = format!("Measured {}", page::on(machine));
    if let Some(sync) = machine.sync_us {
        text.push_str(&format!(". Writing a page to the disk takes {sync:.0} µs"));
    }
    let busy = machine.cores as f64 / 2.0;
    if let Some(load) = machine.load.filter(|load| *load > busy) {
        text.push_str(&format!(
            ".\nDo not rely on these figures: the machine was busy when the run began (load {load:.1})"
        ));
    }
    if report.quick {
        text.push_str(".\nThe rounds were few and short (`--quick`)");
    }
    text.push_str(".\n\n");
    text.push_str("### Targets\n\n");
    text.push_str(&table::targets(judgement));
    text.push_str("\n### Charts\n");
    for chart in charts {
        let title = chart.trim_start_matches("bench-").trim_end_matches(".svg");
        text.push_str(&format!("\n![{}]({chart})\n", title.replace('-', " ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::bench::report::tests::report;

    #[test]
    fn the_page_says_on_what_and_how_the_figures_were_measured() {
        let text = |load, quick| {
            let mut report = report(serde_json::json!([]));
            (report.machine.load, report.quick) = (load, quick);
            figures(&report, &Judgement::default(), &[])
        };
        let idle = text(Some(0.3), false);
        assert!(idle.starts_with("Measured 2026-11-22 on AMD EPYC (2 cores), 23.5 GiB"));
        assert!(!idle.contains("busy") && !idle.contains("--quick"));
        assert!(text(Some(14.2), false).contains("busy"));
        assert!(text(None, true).contains("`--quick`"));
    }

    fn file(path: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
    }

    #[test]
    fn the_page_is_short_and_every_miss_has_its_reason() {
        let page = std::fs::read_to_string(file(PAGE)).unwrap();
        assert!(page.len() <= 12_000, "{} bytes", page.len());
        let table = page.lines().skip_while(|line| *line != "### Targets");
        let table = table.skip_while(|line| !line.starts_with('|')).skip(2);
        let lines: Vec<_> = table.take_while(|line| line.starts_with('|')).collect();
        assert!(!lines.is_empty(), "the page has no targets");
        for line in lines {
            let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
            assert!(cells[3].starts_with(['>', '<']), "{line}");
            for cell in cells[4..].iter().filter(|cell| !cell.is_empty()) {
                let (ratio, reason) = cell.split_once(' ').unwrap_or((cell, ""));
                assert!(ratio.parse::<f64>().unwrap().is_finite(), "{line}");
                assert!(page.contains(&format!("\n{reason}")), "{line}");
            }
        }
        assert!(!page.contains("Not explained"));
    }

    #[test]
    fn the_files_of_the_page_are_there_and_small() {
        let page = std::fs::read_to_string(file(PAGE)).unwrap();
        let links = page.split("](").skip(1);
        let links: Vec<_> = links.filter_map(|rest| rest.split(')').next()).collect();
        assert!(links.contains(&"performance.csv"));
        for link in links.iter().filter(|link| !link.contains('#')) {
            let file = file("docs").join(link);
            let length = file.metadata().expect(link).len();
            assert!(!link.ends_with(".svg") || length <= 60_000, "{link}");
        }
    }

    #[test]
    fn every_row_of_the_data_file_has_every_column() {
        let mut data = csv::Reader::from_path(file(DATA)).unwrap();
        let page = std::fs::read_to_string(file(PAGE)).unwrap();
        for column in data.headers().unwrap() {
            assert!(
                page.contains(&format!("`{column}`")),
                "{column} is not described"
            );
        }
        let rows: Vec<_> = data.records().map(|row| row.unwrap()).collect();
        let verdicts = |verdict| rows.iter().filter(|row| &row[9] == verdict).count();
        let (met, missed) = (verdicts("met"), verdicts("missed"));
        let sum = format!("\n{met} of {} targets are met.\n", met + missed);
        assert!(
            page.contains(&sum),
            "the page is of other figures than the data file"
        );
    }
}
