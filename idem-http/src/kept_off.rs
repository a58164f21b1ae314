//! Replaces the module `kept` when the feature `diff` is off.

use std::future::{Future, Ready, ready};

use http::HeaderMap;
use idem_core::{Conflict, Fingerprint};
use serde_json::Value;

use crate::HttpPolicy;
use crate::guard::Guard;
use crate::refusal::Differences;

pub(crate) fn document(_: &HttpPolicy, _: &HeaderMap, _: &[u8]) -> Option<Value> {
    None
}

pub(crate) fn beside<F: Future>(handling: F, _: &Guard, _: Fingerprint) -> F {
    handling
}

pub(crate) fn differences(_: &Guard, _: &Conflict) -> Ready<Option<Differences>> {
    ready(None)
}
