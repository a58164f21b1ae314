//! The life of a key with responses of several sizes.

use idem_core::{BoxError, Response};

use super::claim_complete;
use super::claim_fresh::{COALESCED, IDEM};
use crate::{Arena, Contenders, Group, Ids, Plan, Row, Subject, Way};

const CALLERS: usize = 8;

/// Sizes and what the rows are called.
pub const SIZES: [(usize, &str); 4] = [
    (0, "payload_0"),
    (1 << 10, "payload_1KiB"),
    (64 << 10, "payload_64KiB"),
    (1 << 20, "payload_1MiB"),
];

/// A body that no compression makes much smaller.
pub(crate) fn body(bytes: usize) -> Vec<u8> {
    let mut ids = Ids::series();
    let mut body = Vec::with_capacity(bytes + 32);
    while body.len() < bytes {
        body.extend(ids.next_id().bytes());
    }
    body.truncate(bytes);
    body
}

/// Who takes turns: the store alone, and insert and update at their best.
pub async fn group(arena: &Arena, bytes: usize) -> Result<Contenders, BoxError> {
    let mut group = claim_complete::group(arena, &Response::new(200, body(bytes))).await?;
    let left_out = [COALESCED, Way::Pooled.name()];
    group.retain(|contender| !left_out.contains(&contender.name()));
    Ok(group)
}

pub(super) async fn measure(subject: &Subject, plan: &Plan) -> Result<Vec<Row>, BoxError> {
    let mut rows = Vec::new();
    for (bytes, path) in plan.pick(&SIZES[..], &SIZES[1..2]) {
        let arena = subject.arena().await?;
        let group = group(&arena, *bytes).await?;
        let heat = Group::from(group).race(CALLERS, plan).await?;
        rows.extend(heat.rows((path, subject.name()), IDEM, &[]));
        arena.close().await?;
    }
    Ok(rows)
}
