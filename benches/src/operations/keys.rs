use std::borrow::Cow;
use std::sync::Arc;

use idem_core::BoxError;

use super::Operation;
use crate::ids::fresh_id;

/// The keys that callers use.
#[derive(Debug, Clone)]
pub(crate) enum Keys {
    /// A fresh key each time.
    Fresh,
    /// These keys, in turns; the number is that of the last.
    Used(Arc<[String]>, usize),
}

impl Keys {
    /// Returns `count` keys, after one operation on each.
    pub(crate) async fn used(operation: &impl Operation, count: usize) -> Result<Self, BoxError> {
        let keys = Self::Used((0..count).map(|_| fresh_id()).collect(), 0);
        keys.once_each(operation).await?;
        Ok(keys)
    }

    /// Does the operation once with each used key.
    pub(crate) async fn once_each(&self, operation: &impl Operation) -> Result<(), BoxError> {
        let mut connection = operation.connect().await?;
        if let Self::Used(ids, _) = self {
            for id in &**ids {
                operation.step(&mut connection, id).await?;
            }
        }
        Ok(())
    }

    /// Returns the turns of the caller with this number.
    pub(crate) fn turns(&self, number: usize) -> Self {
        match self {
            Self::Fresh => Self::Fresh,
            Self::Used(ids, _) => Self::Used(Arc::clone(ids), number),
        }
    }

    pub(crate) fn next_id(&mut self) -> Cow<'_, str> {
        match self {
            Self::Fresh => fresh_id().into(),
            Self::Used(ids, turn) => {
                *turn += 1;
                ids[*turn % ids.len()].as_str().into()
            }
        }
    }
}
