//! [`Scene`]: contenders that take turns, and the resulting rows.

use async_trait::async_trait;
use idem_core::BoxError;

use crate::generators::{self, generator};
use crate::race::race;
use crate::rival::Rival;
use crate::standings::Standings;
use crate::{Contender, Plan, Ratio, Row};

/// Contenders that take turns.
pub struct Scene {
    path: &'static str,
    backend: String,
    callers: &'static [usize],
    contenders: Vec<Box<dyn Contender>>,
    /// The factor by which the rounds are longer.
    longer: u32,
    rows: fn(&Heat) -> Vec<Row>,
}

impl Scene {
    /// Creates a scene of a path and a backend, at each of these numbers of callers; `rows`
    /// compares the contenders.
    pub(super) fn new(
        (path, backend, callers): (&'static str, &str, &'static [usize]),
        contenders: Vec<Box<dyn Contender>>,
        rows: fn(&Heat) -> Vec<Row>,
    ) -> Self {
        Self {
            path,
            backend: backend.to_owned(),
            callers,
            contenders,
            longer: 1,
            rows,
        }
    }

    /// Makes the rounds longer.
    pub(super) fn longer(mut self, times: u32) -> Self {
        self.longer = times;
        self
    }

    /// Returns the path, such as `payload_1KiB`.
    #[must_use]
    pub fn path(&self) -> &str {
        self.path
    }

    /// Returns the backend's name.
    #[must_use]
    pub fn backend(&self) -> &str {
        &self.backend
    }

    /// Returns the numbers of callers at which the contenders are compared.
    #[must_use]
    pub fn callers(&self) -> &[usize] {
        self.callers
    }

    /// Returns the contenders.
    #[must_use]
    pub fn contenders(&self) -> &[Box<dyn Contender>] {
        &self.contenders
    }
}

impl std::fmt::Debug for Scene {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scene")
            .field("path", &self.path)
            .field("backend", &self.backend)
            .finish_non_exhaustive()
    }
}

/// Measures the contenders of a scene.
#[async_trait]
pub trait Meter: Send {
    /// Measures them. The visitor removes the scene's namespaces afterwards.
    ///
    /// # Errors
    ///
    /// The contenders' error.
    async fn measure(&mut self, scene: Scene) -> Result<(), BoxError>;
}

/// The meter of ratios.
pub(super) struct Race {
    plan: Plan,
    rows: Vec<Row>,
}

impl Race {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            plan: *plan,
            rows: Vec::new(),
        }
    }

    pub(super) fn into_rows(self) -> Vec<Row> {
        self.rows
    }
}

#[async_trait]
impl Meter for Race {
    async fn measure(&mut self, scene: Scene) -> Result<(), BoxError> {
        let plan = Plan {
            round: self.plan.round * scene.longer,
            ..self.plan
        };
        for &callers in scene.callers {
            let guests = guests(&scene, callers);
            let all = scene.contenders.iter().chain(&guests);
            let all: Vec<&dyn Contender> = all.map(|contender| &**contender).collect();
            let heat = Heat {
                path: scene.path,
                backend: scene.backend.clone(),
                callers,
                standings: race(&all, callers, &plan).await?,
            };
            self.rows.extend((scene.rows)(&heat));
        }
        Ok(())
    }
}

/// Returns the server's own load generator at 64 callers, and another crate.
fn guests(scene: &Scene, callers: usize) -> Vec<Box<dyn Contender>> {
    let statement = generators::Statement::of(scene.path).filter(|_| callers == 64);
    let generated = statement.and_then(|statement| {
        let url = idem_servers::url_for(&scene.backend)?;
        generator(&scene.backend, statement, &url)
    });
    let rival = Rival::of(scene.path, &scene.backend, callers);
    let rival = rival.map(|rival| Box::new(rival) as Box<dyn Contender>);
    generated.into_iter().chain(rival).collect()
}

/// The results of a scene's contenders at one number of callers.
pub(super) struct Heat {
    path: &'static str,
    backend: String,
    pub(super) callers: usize,
    pub(super) standings: Standings,
}

impl Heat {
    /// Returns throughput of `ours` against that of `base`; `None` if one of them did not take
    /// part.
    pub(super) fn row(&self, path: &str, ours: &str, base: &str) -> Option<Row> {
        Some(self.with(path, [ours, base], self.standings.ratio(ours, base)?))
    }

    /// Returns time per operation of `ours` against that of `base`.
    pub(super) fn time_row(&self, path: &str, ours: &str, base: &str) -> Option<Row> {
        Some(self.with(path, [ours, base], self.standings.time_ratio(ours, base)?))
    }

    /// Returns the 99th percentile of latency of `ours` against that of `base`.
    pub(super) fn p99_row(&self, path: &str, ours: &str, base: &str) -> Option<Row> {
        Some(self.with(path, [ours, base], self.standings.p99_ratio(ours, base)?))
    }

    /// Returns a row with the figures of both.
    pub(super) fn with(&self, path: &str, [ours, base]: [&str; 2], ratio: Ratio) -> Row {
        Row {
            idem: self.standings.figures(ours),
            bare: self.standings.figures(base),
            ..Row::new((path, &self.backend, self.callers), base, ratio)
        }
    }

    /// Returns throughput of the first contender against that of every other one; against itself if
    /// there is none.
    pub(super) fn rows(&self) -> Vec<Row> {
        let mut names = self.standings.names();
        let ours = names.next().unwrap_or_default();
        let mut bases: Vec<_> = names.collect();
        if bases.is_empty() {
            bases.push(ours);
        }
        let rows = bases
            .into_iter()
            .map(|base| self.row(self.path, ours, base));
        rows.flatten().collect()
    }
}
