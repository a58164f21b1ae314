//! What is asked of the ratios: one table.

use crate::{Bound, Row};

/// Which backends are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum On {
    Any,
    /// All that are sent statements: not the memory store, which has targets of its own.
    Statements,
    Sql,
    Only(&'static [&'static str]),
}

impl On {
    fn includes(self, backend: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Statements => backend != "memory",
            Self::Sql => SQL.contains(&backend),
            Self::Only(names) => names.contains(&backend),
        }
    }
}

/// The backends that speak SQL.
const SQL: [&str; 4] = ["postgres", "mariadb", "mysql", "sqlite"];
const REDIS: On = On::Only(&["redis", "valkey"]);

/// What is asked of the rows of one kind.
struct Target {
    path: &'static str,
    on: On,
    /// From so many callers to so many.
    callers: [usize; 2],
    baseline: &'static str,
    bound: Bound,
    ratio: f64,
}

const fn target(
    (path, on, callers): (&'static str, On, [usize; 2]),
    baseline: &'static str,
    bound: Bound,
    ratio: f64,
) -> Target {
    Target {
        path,
        on,
        callers,
        baseline,
        bound,
        ratio,
    }
}

const ANY: [usize; 2] = [1, usize::MAX];
const MANY: [usize; 2] = [64, usize::MAX];
const ONE: [usize; 2] = [1, 1];
const AT_LEAST: Bound = Bound::AtLeast;
const AT_MOST: Bound = Bound::AtMost;
const FRESH: &str = "claim_fresh";
const COALESCED: &str = "claim_fresh_coalesced";
const HELD: &str = "bare held";

/// The first line that a row fits counts; a row that fits none is only shown.
const TARGETS: [Target; 19] = [
    target(("replay", On::Any, ANY), HELD, AT_LEAST, 0.90),
    target((FRESH, REDIS, [512, 512]), HELD, AT_LEAST, 0.85),
    target(
        (FRESH, REDIS, [512, 512]),
        "idempotent crate",
        AT_LEAST,
        3.0,
    ),
    target((FRESH, On::Statements, ANY), HELD, AT_LEAST, 0.90),
    target((COALESCED, On::Sql, MANY), HELD, AT_LEAST, 2.5),
    target((COALESCED, On::Sql, MANY), "bare pooled", AT_LEAST, 4.0),
    target((COALESCED, On::Sql, ONE), HELD, AT_LEAST, 0.95),
    target(
        ("claim_fresh_coalesced_p99", On::Sql, ONE),
        HELD,
        AT_MOST,
        1.1,
    ),
    target(
        (
            "claim_complete_coalesced",
            On::Only(&["postgres"]),
            [64, 64],
        ),
        "pgbench",
        AT_LEAST,
        2.0,
    ),
    target(("hybrid_hit", On::Any, ANY), HELD, AT_LEAST, 0.90),
    target(("memory_life", On::Any, ANY), "dashmap", AT_LEAST, 0.5),
    target(
        ("memory_life_rate", On::Any, ANY),
        "a million a second",
        AT_LEAST,
        1.0,
    ),
    target(
        ("contended", On::Any, [64, 64]),
        "claim + replay",
        AT_MOST,
        4.0,
    ),
    target(
        ("run_fresh", On::Statements, [64, 64]),
        "store's own calls",
        AT_LEAST,
        0.90,
    ),
    target(
        ("run_replayed", On::Statements, [64, 64]),
        "store's own calls",
        AT_LEAST,
        0.90,
    ),
    target(
        ("locked_key", On::Any, [64, 64]),
        "no locked key",
        AT_LEAST,
        0.90,
    ),
    target(
        ("locked_key_coalesced", On::Any, [64, 64]),
        "coalesced, no locked key",
        AT_LEAST,
        0.90,
    ),
    target(("table_size_1e7", On::Any, ANY), "1e4 rows", AT_LEAST, 0.85),
    target(("purge", On::Any, ANY), "no purge", AT_LEAST, 0.85),
];

impl Target {
    fn fits(&self, row: &Row) -> bool {
        let [from, to] = self.callers;
        self.path == row.path
            && self.baseline == row.baseline
            && self.on.includes(&row.backend)
            && (from..=to).contains(&row.callers)
    }
}

impl Row {
    /// The same with what is asked of it, and whether it is met.
    #[must_use]
    pub fn judged(mut self) -> Self {
        if let Some(target) = TARGETS.iter().find(|target| target.fits(&self)) {
            self.target = Some(target.ratio);
            self.bound = Some(target.bound);
            self.met = Some(target.bound.is_met(self.ratio, target.ratio));
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use crate::{Bound, PATHS, Ratio, Row};

    fn judged(path: &str, backend: &str, callers: usize, baseline: &str, ratio: f64) -> Row {
        let spread = [ratio, ratio];
        let ratio = Ratio {
            median: ratio,
            spread,
        };
        Row::new((path, backend, callers), baseline, ratio).judged()
    }

    #[test]
    fn every_target_is_of_a_path_that_is_measured() {
        for target in super::TARGETS {
            let measured = |path: &&str| target.path.starts_with(*path);
            assert!(PATHS.iter().any(measured), "{}", target.path);
        }
    }

    #[test]
    fn more_is_better_of_throughput_and_less_of_time() {
        let row = judged("claim_fresh", "postgres", 8, "bare held", 0.9);
        assert_eq!((row.target, row.met), (Some(0.9), Some(true)));
        let row = judged("contended", "postgres", 64, "claim + replay", 4.1);
        assert_eq!((row.bound, row.met), (Some(Bound::AtMost), Some(false)));
    }

    #[test]
    fn a_row_has_the_target_of_its_backend_and_callers() {
        let target =
            |backend, callers| judged("claim_fresh", backend, callers, "bare held", 1.0).target;
        assert_eq!(target("redis", 512), Some(0.85));
        assert_eq!(target("redis", 64), Some(0.9));
        assert_eq!(target("memory", 64), None);
        let target = |backend, callers| {
            judged("claim_fresh_coalesced", backend, callers, "bare held", 1.0).target
        };
        assert_eq!(target("mariadb", 512), Some(2.5));
        assert_eq!(target("mariadb", 8), None);
        assert_eq!(target("sqlite", 1), Some(0.95));
        assert_eq!(target("redis", 64), None);
    }
}
