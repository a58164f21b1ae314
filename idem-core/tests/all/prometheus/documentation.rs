//! The table in the documentation of `observe`.

use idem_core::engine::observe::METRICS;

#[test]
fn the_documentation_lists_every_metric_with_its_labels() {
    let documentation = include_str!("../../../src/engine/observe/mod.rs");
    for metric in METRICS {
        let row = documentation
            .lines()
            .find(|line| line.contains(&format!("`{}`", metric.name)));
        let row = row.unwrap_or_else(|| panic!("{}", metric.name));
        for label in metric.labels {
            assert!(row.contains(&format!("`{label}`")), "{row}");
        }
    }
}
