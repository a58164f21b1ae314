//! The store offers exactly what its profile promises.

use std::sync::Arc;

use idem_core::IdempotencyStore;

use crate::case::cases;
use crate::failure::ensure_eq;
use crate::{CaseResult, Context, Promise};

cases! { law 2:
    a_store_offers_what_its_profile_promises,
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
