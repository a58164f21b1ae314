//! The calls in a key's life, of the store and as bare statements.

use idem_core::{BoxError, Response};

use super::{HELD, IDEM, KEYS, Visit};
use crate::ids::{Ids, response};
use crate::measured::Measured;
use crate::operations::{Bare, Claims, Connections, Keys, Replay};
use crate::{Arena, Contender};

/// Measures a claim of a fresh key against the insert.
pub(super) async fn claim_fresh(visit: Visit<'_>) -> Result<(), BoxError> {
    let arena = Arena::new(visit.backend).await?;
    let mut contenders = vec![Measured::boxed(IDEM, Claims::fresh(arena.store()))];
    for (name, connections) in Connections::all(&arena).await? {
        contenders.push(Measured::boxed(name, Bare::fresh(connections)));
    }
    let callers = visit.plan.pick(&[1, 8, 64, 512][..], &[1, 64, 512]);
    let scene = visit.scene("claim_fresh", callers, contenders, |heat| {
        let mut rows = heat.rows();
        if [1, 64].contains(&heat.callers) {
            rows.extend(heat.p99_row("claim_fresh_p99", IDEM, HELD));
        }
        rows
    });
    visit.meter.measure(scene).await?;
    arena.close().await
}

/// Returns contenders for the whole life of a key.
async fn lives(arena: &Arena, response: &Response) -> Result<Vec<Box<dyn Contender>>, BoxError> {
    let claims = Claims::with_response(arena.store(), response.clone());
    let mut contenders = vec![Measured::boxed(IDEM, claims)];
    for (name, connections) in Connections::all(arena).await? {
        let claims = Bare::completed(connections, response);
        contenders.push(Measured::boxed(name, claims));
    }
    Ok(contenders)
}

/// Measures a claim and its completion against insert and update.
pub(super) async fn claim_complete(mut visit: Visit<'_>) -> Result<(), BoxError> {
    let arena = Arena::new(visit.backend).await?;
    let contenders = lives(&arena, &response()).await?;
    let callers = visit.plan.pick(&[64, 512][..], &[64]);
    visit.compare("claim_complete", callers, contenders).await?;
    arena.close().await
}

/// Returns reads by primary key of rows with a response.
pub(super) async fn bare_select(
    name: &str,
    connections: Connections,
) -> Result<Box<dyn Contender>, BoxError> {
    let claims = Bare::completed(connections, &response());
    let keys = Keys::used(&claims, KEYS).await?;
    Ok(Measured::on(&keys, name, claims.selects()))
}

/// Measures a claim of a completed key against the read by primary key.
pub(super) async fn replay(mut visit: Visit<'_>) -> Result<(), BoxError> {
    let arena = Arena::new(visit.backend).await?;
    let keys = Keys::used(&Claims::completed(arena.store()), KEYS).await?;
    let mut contenders = vec![Measured::on(&keys, IDEM, Replay(arena.store()))];
    for (name, connections) in Connections::all(&arena).await? {
        contenders.push(bare_select(name, connections).await?);
    }
    let callers = visit.plan.pick(&[1, 64, 512][..], &[1, 64]);
    visit.compare("replay", callers, contenders).await?;
    arena.close().await
}

/// Sizes of responses, and the paths of their rows.
const SIZES: [(usize, &str); 4] = [
    (0, "payload_0"),
    (1 << 10, "payload_1KiB"),
    (64 << 10, "payload_64KiB"),
    (1 << 20, "payload_1MiB"),
];

/// Returns a body that compresses badly.
fn body(bytes: usize) -> Vec<u8> {
    let mut ids = Ids::series();
    let digits = std::iter::repeat_with(|| ids.next_id().into_bytes());
    digits.flatten().take(bytes).collect()
}

/// Measures the life of a key with responses of several sizes, against insert and update at their
/// best.
pub(super) async fn payload(mut visit: Visit<'_>) -> Result<(), BoxError> {
    for (bytes, path) in visit.plan.pick(&SIZES[..], &SIZES[1..2]) {
        let arena = Arena::new(visit.backend).await?;
        let mut contenders = lives(&arena, &Response::new(200, body(*bytes))).await?;
        contenders.retain(|contender| [IDEM, HELD].contains(&contender.name()));
        visit.compare(path, &[8], contenders).await?;
        arena.close().await?;
    }
    Ok(())
}
