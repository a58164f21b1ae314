//! Seeds draw a quarter of each row.

use idem_conformance::{Case, cases, drawn};

fn is_drawn(seed: u64, row: &str) -> Vec<bool> {
    let names = cases().map(Case::full_name);
    names.map(|case| drawn(seed, row, &case)).collect()
}

#[test]
fn four_seeds_in_a_row_draw_each_case_once() {
    for first in [0, 7, u64::MAX - 5] {
        let mut times = vec![0; cases().count()];
        for seed in first..first + 4 {
            for (times, is_drawn) in times.iter_mut().zip(is_drawn(seed, "postgres-sqlx")) {
                *times += u32::from(is_drawn);
            }
        }
        assert!(times.iter().all(|times| *times == 1), "{times:?}");
    }
}

#[test]
fn a_seed_draws_about_a_quarter_of_each_row_and_not_the_same_one() {
    let rows = ["sqlite-protected", "mysql-hostile", "galera", "remote"];
    let drawn = rows.map(|row| is_drawn(42, row));
    for (row, drawn) in rows.iter().zip(&drawn) {
        let share = drawn.iter().filter(|drawn| **drawn).count() * 100 / drawn.len();
        assert!((18..=32).contains(&share), "{row}: {share} %");
    }
    assert!(drawn[1..].iter().all(|other| *other != drawn[0]));
}
