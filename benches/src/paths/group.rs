//! [`Group`]: who takes turns, and what is compared.

use idem_core::BoxError;

use crate::{Contender, Counted, Plan, Ratio, Row, Standings, race};

/// The contenders of one comparison.
pub struct Group {
    contenders: Vec<Box<dyn Contender>>,
}

impl Group {
    /// Those that take part.
    #[must_use]
    pub fn contenders(&self) -> &[Box<dyn Contender>] {
        &self.contenders
    }

    /// Lets them take turns.
    ///
    /// # Errors
    ///
    /// As of [`race`].
    pub async fn race(&self, callers: usize, plan: &Plan) -> Result<Heat, BoxError> {
        self.race_against(&[], callers, plan).await
    }

    /// The same with others besides.
    pub(crate) async fn race_against(
        &self,
        others: &[Box<dyn Contender>],
        callers: usize,
        plan: &Plan,
    ) -> Result<Heat, BoxError> {
        let all = self.contenders.iter().chain(others);
        let all: Vec<&dyn Contender> = all.map(|contender| &**contender).collect();
        Ok(Heat {
            callers,
            standings: race(&all, callers, plan).await?,
        })
    }
}

impl From<Vec<Box<dyn Counted>>> for Group {
    fn from(contenders: Vec<Box<dyn Counted>>) -> Self {
        let contenders = contenders.into_iter();
        Self {
            contenders: contenders.map(|contender| contender as _).collect(),
        }
    }
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.contenders.iter().map(|contender| contender.name());
        f.debug_list().entries(names).finish()
    }
}

/// How a group did at one concurrency.
#[derive(Debug)]
pub struct Heat {
    callers: usize,
    standings: Standings,
}

impl Heat {
    /// What the rounds come to.
    pub(crate) fn standings(&self) -> &Standings {
        &self.standings
    }

    /// Throughput of `ours` against that of `base`; none where one of them did not take part.
    pub(crate) fn row(&self, place: (&str, &str), ours: &str, base: &str) -> Option<Row> {
        self.with(place, [ours, base], self.standings.ratio(ours, base))
    }

    /// Time per operation of `ours` against that of `base`.
    pub(crate) fn time_row(&self, place: (&str, &str), ours: &str, base: &str) -> Option<Row> {
        self.with(place, [ours, base], self.standings.time_ratio(ours, base))
    }

    /// Latency of one in a hundred of `ours` against that of `base`.
    pub(crate) fn p99_row(&self, place: (&str, &str), ours: &str, base: &str) -> Option<Row> {
        self.with(place, [ours, base], self.standings.p99_ratio(ours, base))
    }

    fn with(
        &self,
        (path, backend): (&str, &str),
        [ours, base]: [&str; 2],
        ratio: Option<Ratio>,
    ) -> Option<Row> {
        let figures = |name| self.standings.figures(name);
        let row = Row::new((path, backend, self.callers), base, ratio?);
        Some(row.with_figures(figures(ours), figures(base)).judged())
    }

    /// Throughput of `ours` against that of everybody but those in `others`; where there is nobody else, against itself.
    pub(crate) fn rows(&self, place: (&str, &str), ours: &str, others: &[&str]) -> Vec<Row> {
        let bases = self.standings.names();
        let bases = bases.filter(|base| *base != ours && !others.contains(base));
        let rows: Vec<_> = bases
            .filter_map(|base| self.row(place, ours, base))
            .collect();
        let alone = self.standings.names().all(|name| name == ours);
        let itself = alone.then(|| self.row(place, ours, ours)).flatten();
        rows.into_iter().chain(itself).collect()
    }
}
