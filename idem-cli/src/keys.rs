//! The keys of encrypted results: from a file or a variable, never from the command line.

use std::sync::Arc;

use idem_core::IdempotencyStore;
use idem_core::wrappers::Protected;
use idem_core::wrappers::protected::{KeyRing, PlainRecords};

use crate::args::StoreArgs;
use crate::failure::{Failure, Result};

/// The variable with the keys themselves.
pub(crate) const VARIABLE: &str = "IDEM_KEYS";

/// Returns the keys, if there are any.
///
/// # Errors
///
/// A usage error for a file that cannot be read, for keys of another form, and for both a file and
/// the variable. No message has a part of a key.
pub(crate) fn ring(args: &StoreArgs) -> Result<Option<Arc<KeyRing>>> {
    let variable = std::env::var(VARIABLE).ok().filter(|keys| !keys.is_empty());
    let (text, place) = match (&args.keys, variable) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => {
            return Err(Failure::usage(format!(
                "the keys are in a file and in {VARIABLE}; leave out one of them"
            )));
        }
        (None, Some(keys)) => (keys, VARIABLE.to_owned()),
        (Some(file), None) => {
            let place = file.display().to_string();
            let text = std::fs::read_to_string(file).map_err(|error| {
                Failure::usage(format!("the keys cannot be read: {}", error.kind())).at(&place)
            })?;
            (text, place)
        }
    };
    let ring = KeyRing::parse(&text).map_err(|error| Failure::from(error).at(&place))?;
    Ok(Some(Arc::new(ring)))
}

/// Puts the keys in front of the store, if there are any. Plain records are shown, too.
pub(crate) fn in_front(
    args: &StoreArgs,
    store: Arc<dyn IdempotencyStore>,
) -> Result<Arc<dyn IdempotencyStore>> {
    Ok(match ring(args)? {
        None => store,
        Some(ring) => Arc::new(
            Protected::new(store)
                .with_keys(ring)
                .with_plain_records(PlainRecords::Accept),
        ),
    })
}
