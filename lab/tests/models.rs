//! The models come out as the table says; the large ones are those of `prove model`.

use std::collections::BTreeSet;

use idem_prove::model::{configurations, run};

#[test]
fn small_configurations_come_out_as_expected() {
    let small = configurations();
    let small = small.iter().filter(|it| it.is_small());
    let wrong: Vec<String> = small
        .map(run)
        .filter(|outcome| !outcome.is_expected)
        .map(|outcome| format!("{outcome}\n  {}", outcome.path.join("\n  ")))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_name_is_one_configuration() {
    let all = configurations();
    let names: BTreeSet<_> = all.iter().map(|it| it.name()).collect();
    assert_eq!(names.len(), all.len());
}
