//! The table in the README.

use idem_core::engine::observe::METRICS;

#[test]
fn the_readme_lists_every_metric_with_its_labels() {
    let readme = include_str!("../../README.md");
    for metric in METRICS {
        let row = readme
            .lines()
            .find(|line| line.contains(&format!("`{}`", metric.name)));
        let row = row.unwrap_or_else(|| panic!("{}", metric.name));
        for label in metric.labels {
            assert!(row.contains(&format!("`{label}`")), "{row}");
        }
    }
}
