//! What is stored in place of a response: masked values, and references.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;

use crate::mask::{Mask, masked_text};
use crate::{Effect, Error, ErrorKind, Key, Response, Result};

/// Stores a reference in place of a response, and makes the answer anew when it is replayed: from
/// the current state of the order, not from a copy of its old one.
///
/// ```
/// use async_trait::async_trait;
/// use idem_core::wrappers::protected::{Protected, Rebuild};
/// use idem_core::{Error, Key, MemoryStore, Response, Result};
///
/// #[derive(Debug)]
/// struct Orders;
///
/// #[async_trait]
/// impl Rebuild for Orders {
///     fn reference(&self, _key: &Key, response: &Response) -> Result<Response> {
///         let order: serde_json::Value = response.from_json()?;
///         Response::json(&order["id"])
///     }
///
///     async fn rebuild(&self, _key: &Key, reference: Response) -> Result<Response> {
///         let id: u64 = reference.from_json()?;
///         // Reads the order from the database.
///         Response::json(&serde_json::json!({"id": id, "state": "shipped"}))
///     }
/// }
///
/// let store = Protected::new(MemoryStore::new()).with_rebuild("orders.create", Orders);
/// # let _ = store;
/// ```
#[async_trait]
pub trait Rebuild: Debug + Send + Sync + 'static {
    /// Returns what is stored in place of this response. The same response must give the same
    /// reference: a repeated completion stores it again.
    ///
    /// # Errors
    ///
    /// Any; the completion returns it, and nothing is stored.
    fn reference(&self, key: &Key, response: &Response) -> Result<Response>;

    /// Returns the answer that a replay gets. It may be called at any time, any number of times, by
    /// any process.
    ///
    /// # Errors
    ///
    /// Any; the claim returns it, and no work runs. `Unavailable` where a later try may succeed:
    /// the claim then returns `Contention`, which is retried like it. The store itself can be
    /// reached, so callers that go on without a store must not do so here.
    async fn rebuild(&self, key: &Key, reference: Response) -> Result<Response>;
}

/// How the responses of an operation are stored.
#[derive(Debug, Clone, Default)]
struct Form {
    masks: Vec<Mask>,
    rebuild: Option<Arc<dyn Rebuild>>,
}

/// How responses are stored, by operation.
#[derive(Debug, Clone, Default)]
pub(super) struct Forms(HashMap<String, Form>);

impl Forms {
    pub(super) fn mask(&mut self, operation: String, pointer: &str) {
        let form = self.0.entry(operation).or_default();
        form.masks.push(Mask::new(pointer));
    }

    pub(super) fn rebuild(&mut self, operation: String, rebuild: Arc<dyn Rebuild>) {
        self.0.entry(operation).or_default().rebuild = Some(rebuild);
    }

    /// Returns what is stored in place of the response; `None` for the response itself.
    pub(super) fn stored(&self, key: &Key, response: &Response) -> Result<Option<Response>> {
        let Some(form) = self.0.get(key.operation()) else {
            return Ok(None);
        };
        let reference = match &form.rebuild {
            Some(rebuild) => Some(rebuild.reference(key, response)?),
            None => None,
        };
        let masked = masked(&form.masks, reference.as_ref().unwrap_or(response))?;
        Ok(masked.or(reference))
    }

    /// Returns the answer of a replay.
    pub(super) async fn replayed(&self, key: &Key, stored: Response) -> Result<Response> {
        let form = self.0.get(key.operation());
        match form.and_then(|form| form.rebuild.as_ref()) {
            Some(rebuild) => rebuild.rebuild(key, stored).await.map_err(not_rebuilt),
            None => Ok(stored),
        }
    }
}

/// Returns the error of a replay whose answer could not be made. Callers that go on without a store
/// that is `Unavailable` would run completed work again.
fn not_rebuilt(error: Error) -> Error {
    if error.kind() != ErrorKind::Unavailable {
        return error.with_effect(Effect::None);
    }
    let message = "the key is completed, but its answer cannot be made now; ask again";
    Error::new(ErrorKind::Contention, Effect::None, message).with_source(error)
}

/// Returns the response with masked values; `None` when there is none to mask.
fn masked(masks: &[Mask], response: &Response) -> Result<Option<Response>> {
    if masks.is_empty() || response.body().is_empty() {
        return Ok(None);
    }
    // Nobody can tell what a body in another form contains, so it is not stored.
    let not_json = || {
        Error::invalid_input(
            "the operation's responses are masked, and the body of this one is not JSON, so it \
             cannot be; return JSON or no body, or take the masks from the operation",
        )
    };
    let masked = masked_text(masks, response.body()).map_err(|_| not_json())?;
    Ok(masked.map(|body| {
        let response_with = |response: Response, (name, value): &(String, _)| {
            response.with_header(name.clone(), bytes::Bytes::clone(value))
        };
        let new = Response::new(response.status(), body);
        response.headers().iter().fold(new, response_with)
    }))
}
