//! Seeds draw a half of each row.

use idem_conformance::{Case, cases, drawn};

fn is_drawn(seed: u64, row: &str) -> Vec<bool> {
    let names = cases().map(Case::full_name);
    names.map(|case| drawn(seed, row, &case)).collect()
}

#[test]
fn two_seeds_in_a_row_draw_each_case_once() {
    for first in [0, 7, u64::MAX - 3] {
        let drawn = [first, first + 1].map(|seed| is_drawn(seed, "postgres-sqlx"));
        assert!(
            drawn[0]
                .iter()
                .zip(&drawn[1])
                .all(|(one, other)| one != other)
        );
    }
}

#[test]
fn a_seed_draws_about_a_half_of_each_row_and_not_the_same_one() {
    let rows = ["sqlite-protected", "mysql-hostile", "galera", "remote"];
    let drawn = rows.map(|row| is_drawn(42, row));
    for (row, drawn) in rows.iter().zip(&drawn) {
        let share = drawn.iter().filter(|drawn| **drawn).count() * 100 / drawn.len();
        assert!((40..=60).contains(&share), "{row}: {share} %");
    }
    assert!(drawn[1..].iter().all(|other| *other != drawn[0]));
}
