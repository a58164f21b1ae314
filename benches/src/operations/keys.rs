use std::borrow::Cow;
use std::sync::Arc;

use idem_core::BoxError;

use super::Operation;
use crate::ids::Ids;

/// The keys that callers use.
#[derive(Debug, Clone)]
pub(crate) enum Keys {
    /// A fresh key each time.
    Fresh,
    /// These keys, in turns.
    Used(Arc<[String]>),
}

impl Keys {
    /// Returns `count` keys, after one operation on each.
    pub(crate) async fn used(operation: &impl Operation, count: usize) -> Result<Self, BoxError> {
        let mut ids = Ids::series();
        let ids: Arc<[String]> = (0..count).map(|_| ids.next_id()).collect();
        let keys = Self::Used(ids);
        keys.once_each(operation).await?;
        Ok(keys)
    }

    /// Does the operation once with each used key.
    pub(crate) async fn once_each(&self, operation: &impl Operation) -> Result<(), BoxError> {
        let mut connection = operation.connect().await?;
        if let Self::Used(ids) = self {
            for id in &**ids {
                operation.step(&mut connection, id).await?;
            }
        }
        Ok(())
    }

    /// Returns the turns of the caller with this number.
    pub(crate) fn turns(&self, number: usize) -> Turns {
        match self {
            Self::Fresh => Turns::Fresh(Ids::series()),
            Self::Used(ids) => Turns::Used(Arc::clone(ids), number),
        }
    }
}

/// The keys of one caller, in sequence.
pub(crate) enum Turns {
    Fresh(Ids),
    Used(Arc<[String]>, usize),
}

impl Turns {
    pub(crate) fn next_id(&mut self) -> Cow<'_, str> {
        match self {
            Self::Fresh(ids) => ids.next_id().into(),
            Self::Used(ids, turn) => {
                *turn += 1;
                ids[*turn % ids.len()].as_str().into()
            }
        }
    }
}
