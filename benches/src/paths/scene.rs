//! [`Scene`]: contenders that take turns.

use async_trait::async_trait;
use idem_core::BoxError;

use super::race::Heat;
use crate::{Contender, Row};

/// Contenders that take turns.
pub struct Scene {
    /// The path, such as `payload_1KiB`.
    pub path: &'static str,
    /// The backend's name.
    pub backend: String,
    /// The numbers of callers at which the contenders are compared.
    pub callers: &'static [usize],
    /// The contenders.
    pub contenders: Vec<Box<dyn Contender>>,
    /// The factor by which the rounds are longer.
    pub(super) longer: u32,
    pub(super) rows: fn(&Heat) -> Vec<Option<Row>>,
}

impl Scene {
    /// Creates a scene of a path at each of these numbers of callers, which compares the first
    /// contender with each of the others.
    pub(super) fn new(
        path: &'static str,
        callers: &'static [usize],
        contenders: Vec<Box<dyn Contender>>,
    ) -> Self {
        Self {
            path,
            backend: String::new(),
            callers,
            contenders,
            longer: 1,
            rows: Heat::rows,
        }
    }

    /// Compares other contenders.
    pub(super) fn comparing(mut self, rows: fn(&Heat) -> Vec<Option<Row>>) -> Self {
        self.rows = rows;
        self
    }

    /// Makes the rounds longer.
    pub(super) fn longer(mut self, times: u32) -> Self {
        self.longer = times;
        self
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
