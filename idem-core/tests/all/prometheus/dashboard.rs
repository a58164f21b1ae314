//! The Grafana dashboard.

use std::collections::BTreeSet;

use idem_core::engine::observe::METRICS;
use serde_json::Value;

use super::metric_of;

fn dashboard() -> Value {
    serde_json::from_str(include_str!("../../../dashboards/idem.json")).unwrap()
}

fn panels(dashboard: &Value) -> &Vec<Value> {
    dashboard["panels"].as_array().unwrap()
}

fn targets(dashboard: &Value) -> impl Iterator<Item = &Value> {
    let with_targets = panels(dashboard)
        .iter()
        .filter_map(|panel| panel.get("targets"));
    with_targets.flat_map(|targets| targets.as_array().unwrap())
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(move |c| !is_part(c))
        .filter(|word| !word.is_empty())
}

/// Returns the text between each `open` and the next `close`.
fn between<'t>(text: &'t str, open: &'t str, close: char) -> impl Iterator<Item = &'t str> {
    let parts = text.split(open).skip(1);
    parts.map(move |part| part.split(close).next().unwrap())
}

/// The labels that a query names: those that it groups by, and those that it selects by.
fn labels(query: &str) -> Vec<String> {
    let grouped = between(query, "by (", ')').flat_map(|list| list.split(','));
    let selected = between(query, "{", '}').flat_map(|list| list.split(','));
    let selected = selected.map(|one| one.split(['=', '!']).next().unwrap());
    let all = grouped.chain(selected).map(|label| label.trim().to_owned());
    all.filter(|label| !label.is_empty()).collect()
}

#[test]
fn each_query_reads_documented_metrics_by_their_own_labels() {
    let dashboard = dashboard();
    let mut read = BTreeSet::new();
    for target in targets(&dashboard) {
        let query = target["expr"].as_str().unwrap();
        let series: Vec<_> = words(query)
            .filter(|word| word.starts_with("idem_"))
            .collect();
        assert!(!series.is_empty(), "{query}");
        for name in series {
            let metric = metric_of(name).unwrap_or_else(|| panic!("{name} in {query}"));
            read.insert(metric.name);
            for label in labels(query) {
                let is_bucket = label == "le" && name.ends_with("_bucket");
                let is_known = metric.labels.contains(&label.as_str());
                assert!(is_known || is_bucket, "{label} in {query}");
            }
        }
        let count = |c| query.matches(c).count();
        assert_eq!(
            (count('('), count('{')),
            (count(')'), count('}')),
            "{query}"
        );
    }
    let all: BTreeSet<_> = METRICS.iter().map(|metric| metric.name).collect();
    assert_eq!(read, all);
}

#[test]
fn it_has_the_fields_that_grafana_requires_of_a_dashboard() {
    let dashboard = dashboard();
    assert!(dashboard["schemaVersion"].as_u64().unwrap() >= 39);
    assert!(dashboard["id"].is_null());
    for text in ["title", "uid"] {
        assert!(!dashboard[text].as_str().unwrap().is_empty(), "{text}");
    }
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let variable = |name: &str| variables.iter().find(|variable| variable["name"] == name);
    assert_eq!(variable("datasource").unwrap()["type"], "datasource");
    assert_eq!(variable("datasource").unwrap()["query"], "prometheus");
    assert_eq!(variable("operation").unwrap()["type"], "query");
    let ids: BTreeSet<_> = panels(&dashboard)
        .iter()
        .map(|panel| panel["id"].as_u64().unwrap())
        .collect();
    assert_eq!(ids.len(), panels(&dashboard).len());
    for panel in panels(&dashboard) {
        let kind = panel["type"].as_str().unwrap();
        assert!(["row", "timeseries", "stat"].contains(&kind), "{kind}");
        assert!(panel["title"].is_string());
        if kind != "row" {
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{panel}");
            assert!(panel["fieldConfig"]["defaults"]["unit"].is_string());
        }
    }
}

#[test]
fn no_panel_lies_over_another_or_beyond_the_edge() {
    let dashboard = dashboard();
    let mut taken = BTreeSet::new();
    for panel in panels(&dashboard) {
        let side = |name: &str| panel["gridPos"][name].as_u64().unwrap();
        assert!(side("x") + side("w") <= 24, "{panel}");
        for x in side("x")..side("x") + side("w") {
            for y in side("y")..side("y") + side("h") {
                assert!(taken.insert((x, y)), "{panel}");
            }
        }
    }
    let refs = targets(&dashboard).map(|target| target["refId"].as_str().unwrap());
    assert!(refs.into_iter().all(|id| !id.is_empty()));
}
