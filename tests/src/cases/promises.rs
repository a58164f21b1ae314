//! The store offers exactly what its profile promises.

use std::sync::Arc;

use idem_core::{CheckpointStore, IdempotencyStore, RecordAdmin, WatermarkStore};

use crate::case::cases;
use crate::failure::ensure_eq;
use crate::{CaseError, CaseResult, Context, Promise};

cases! { law 2:
    a_store_offers_what_its_profile_promises,
}

/// Returns the checkpoints of a store whose profile promises them.
pub(crate) fn points(store: &dyn IdempotencyStore) -> CaseResult<&dyn CheckpointStore> {
    let points = store.checkpoints();
    points.ok_or_else(|| CaseError::new("checkpoints are promised, but `checkpoints` gives none"))
}

/// Returns the watermarks of a store whose profile promises them.
pub(crate) fn marks(store: &dyn IdempotencyStore) -> CaseResult<&dyn WatermarkStore> {
    let marks = store.watermarks();
    marks.ok_or_else(|| CaseError::new("watermarks are promised, but `watermarks` gives none"))
}

/// Returns the lists and forced steps of a store whose profile promises them.
pub(crate) fn admin(store: &dyn IdempotencyStore) -> CaseResult<&dyn RecordAdmin> {
    let admin = store.admin();
    admin.ok_or_else(|| CaseError::new("`admin` is promised, but gives none"))
}

async fn a_store_offers_what_its_profile_promises(cx: &Context) -> CaseResult {
    let handles: [Arc<dyn IdempotencyStore>; 4] = [
        Arc::clone(cx.store()),
        cx.open().await?,
        Arc::new(Arc::clone(cx.store())),
        Arc::new(Box::new(Arc::clone(cx.store()))),
    ];
    for (at, store) in handles.iter().enumerate() {
        ensure_eq!(
            store.checkpoints().is_some(),
            cx.profile().promises(Promise::Checkpoints),
            "checkpoints, offered by handle {at} and promised"
        );
        ensure_eq!(
            store.watermarks().is_some(),
            cx.profile().promises(Promise::Watermarks),
            "watermarks, offered by handle {at} and promised"
        );
        ensure_eq!(
            store.admin().is_some(),
            cx.profile().promises(Promise::Admin),
            "admin, offered by handle {at} and promised"
        );
    }
    Ok(())
}
