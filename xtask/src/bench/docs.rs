//! The generated part of `docs/performance.md`.

use std::path::Path;

use crate::Result;
use crate::bench::report::Report;
use crate::bench::{chart, table};

const PAGE: &str = "docs/performance.md";
const BEGIN: &str = "<!-- begin: written by `cargo xtask bench --docs` -->";
const END: &str = "<!-- end -->";

/// Puts the figures into the page and the charts beside it.
///
/// # Errors
///
/// The page is not there or has no place for figures; a file cannot be written.
pub(crate) fn write(report: &Report) -> Result {
    let page = std::fs::read_to_string(PAGE).map_err(|error| format!("{PAGE}: {error}"))?;
    let charts = chart::draw(&report.rows(), Path::new("docs"))?;
    let page = replaced(&page, &figures(report, &charts))
        .ok_or_else(|| format!("{PAGE}: no lines `{BEGIN}` and `{END}`"))?;
    std::fs::write(PAGE, page)?;
    println!("    {PAGE}, docs/bench-*.svg");
    Ok(())
}

/// The page with another text between the markers.
fn replaced(page: &str, figures: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!(
        "{before}{BEGIN}\n\n{}\n\n{END}{after}",
        figures.trim()
    ))
}

fn figures(report: &Report, charts: &[String]) -> String {
    let mut text = machine(report);
    text.push_str(&table::markdown(&report.rows()));
    for chart in charts {
        let title = chart.trim_start_matches("bench-").trim_end_matches(".svg");
        text.push_str(&format!("\n![{}]({chart})\n", title.replace('-', " ")));
    }
    text
}

fn machine(report: &Report) -> String {
    let machine = &report.machine;
    let mut text = format!(
        "Measured {} on {} ({} cores), {} of memory, {}",
        machine.date, machine.cpu, machine.cores, machine.memory, machine.kernel
    );
    if let Some(sync) = machine.sync_us {
        text.push_str(&format!("; to have a page on the disk takes {sync:.0} µs"));
    }
    if let Some(load) = machine
        .load
        .filter(|load| *load > machine.cores as f64 / 2.0)
    {
        text.push_str(&format!(
            ".\nThe machine was busy with something else when this began (load {load:.1}): the figures are not to be relied on"
        ));
    }
    text.push_str(if report.quick {
        ".\nThe rounds were few and short (`--quick`).\n\n"
    } else {
        ".\n\n"
    });
    for server in &report.servers {
        let version = server.version.as_deref().unwrap_or("of unknown version");
        text.push_str(&format!(
            "- {}: {} {version}; {}\n",
            server.name, server.product, server.settings
        ));
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::tests::machine;

    #[test]
    fn only_what_is_between_the_markers_is_written_anew() {
        let page = format!("# Speed\n\n{BEGIN}\nold\n{END}\n\nHow to read it.\n");
        let new = replaced(&page, "new\n").unwrap();
        assert_eq!(
            new,
            format!("# Speed\n\n{BEGIN}\n\nnew\n\n{END}\n\nHow to read it.\n")
        );
        assert_eq!(replaced(&new, "new").unwrap(), new);
        assert_eq!(replaced("# Speed\n", "new"), None);
    }

    #[test]
    fn a_quick_run_is_told_as_such() {
        let quick = |quick| figures(&Report::new(machine(), Vec::new(), quick), &[]);
        assert!(quick(true).contains("`--quick`") && !quick(false).contains("quick"));
        assert!(quick(false).starts_with("Measured 2026-11-22 on AMD EPYC (2 cores), 23.5 GiB"));
    }

    #[test]
    fn a_busy_machine_is_told_as_such() {
        let busy = |load| {
            let machine = crate::bench::machine::Machine { load, ..machine() };
            figures(&Report::new(machine, Vec::new(), false), &[]).contains("busy")
        };
        assert!(busy(Some(14.2)) && !busy(Some(0.3)) && !busy(None));
    }

    /// The cells of the lines of a table that begins with this heading.
    fn cells(page: &str, heading: &str) -> Vec<Vec<String>> {
        let lines = page.lines().skip_while(|line| *line != heading).skip(2);
        let lines = lines.take_while(|line| line.starts_with('|')).skip(2);
        let cells = |line: &str| {
            let cells = line.trim_matches('|').split('|');
            cells.map(|cell| cell.trim().to_owned()).collect()
        };
        lines.map(cells).collect()
    }

    #[test]
    fn every_target_of_the_page_has_a_verdict_and_every_miss_its_reason() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(PAGE);
        let page = std::fs::read_to_string(file).unwrap();
        let rows = cells(&page, "### Targets");
        assert!(!rows.is_empty(), "the page has no targets");
        for row in rows {
            assert_eq!(row.len(), 11, "{row:?}");
            let ratio: f64 = row[3].split(' ').next().unwrap().parse().unwrap();
            // What the memory grows by may be less than nothing.
            let may_be_below_zero = row[3].ends_with("bytes");
            assert!(ratio > 0.0 || may_be_below_zero, "{row:?}");
            assert!(ratio.is_finite() && !row[6].is_empty(), "{row:?}");
            match row[7].strip_prefix("missed ") {
                None => assert_eq!(row[7], "met", "{row:?}"),
                Some(reason) => assert!(page.contains(&format!("\n{reason} ")), "{row:?}"),
            }
        }
    }

    #[test]
    fn the_charts_of_the_page_are_there() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
        let page = std::fs::read_to_string(folder.join("performance.md")).unwrap();
        let mut links = page
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next());
        let charts: Vec<_> = links
            .by_ref()
            .filter(|link| link.ends_with(".svg"))
            .collect();
        assert!(!charts.is_empty());
        for chart in charts {
            assert!(folder.join(chart).is_file(), "{chart}");
        }
    }
}
