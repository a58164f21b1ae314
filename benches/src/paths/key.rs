//! The calls in a key's life, of the store and as bare statements.

use std::sync::Arc;

use idem_core::{BoxError, Response};

use super::{HELD, IDEM, KEYS, Meter, Scene};
use crate::ids::{Ids, response};
use crate::measured::Measured;
use crate::operations::{BareClaims, BareSelect, Claims, Connections, Keys, Replay};
use crate::{Arena, Backend, Contender, Plan};

/// Measures a claim of a fresh key against the insert.
pub(super) async fn claim_fresh(
    backend: &Arc<dyn Backend>,
    plan: &Plan,
    meter: &mut dyn Meter,
) -> Result<(), BoxError> {
    let arena = Arena::new(backend).await?;
    let mut contenders = vec![Measured::boxed(IDEM, Claims::fresh(arena.store()))];
    for (name, connections) in Connections::all(&arena).await? {
        let response = None;
        let claims = BareClaims {
            connections,
            response,
        };
        contenders.push(Measured::boxed(name, claims));
    }
    let callers = plan.pick(&[1, 8, 64, 512][..], &[1, 64, 512]);
    let scene = Scene::new(
        ("claim_fresh", backend.name(), callers),
        contenders,
        |heat| {
            let mut rows = heat.rows("claim_fresh", IDEM);
            if [1, 64].contains(&heat.callers) {
                rows.extend(heat.p99_row("claim_fresh_p99", IDEM, HELD));
            }
            rows
        },
    );
    meter.measure(scene).await?;
    arena.close().await
}

/// Returns contenders for the whole life of a key.
async fn lives(arena: &Arena, response: &Response) -> Result<Vec<Box<dyn Contender>>, BoxError> {
    let completed = Claims {
        store: arena.store(),
        response: Some(response.clone()),
    };
    let mut contenders = vec![Measured::boxed(IDEM, completed)];
    for (name, connections) in Connections::all(arena).await? {
        let response = Some(response.body().clone());
        let claims = BareClaims {
            connections,
            response,
        };
        contenders.push(Measured::boxed(name, claims));
    }
    Ok(contenders)
}

/// Measures a claim and its completion against insert and update.
pub(super) async fn claim_complete(
    backend: &Arc<dyn Backend>,
    plan: &Plan,
    meter: &mut dyn Meter,
) -> Result<(), BoxError> {
    let arena = Arena::new(backend).await?;
    let contenders = lives(&arena, &response()).await?;
    let callers = plan.pick(&[64, 512][..], &[64]);
    let scene = Scene::new(
        ("claim_complete", backend.name(), callers),
        contenders,
        |heat| heat.rows("claim_complete", IDEM),
    );
    meter.measure(scene).await?;
    arena.close().await
}

/// Returns reads by primary key of rows with a response.
pub(super) async fn bare_select(
    name: &str,
    connections: Connections,
) -> Result<Box<dyn Contender>, BoxError> {
    let claims = BareClaims {
        connections,
        response: Some(response().body().clone()),
    };
    let keys = Keys::used(&claims, KEYS).await?;
    Ok(Measured::on(&keys, name, BareSelect(claims.connections)))
}

/// Measures a claim of a completed key against the read by primary key.
pub(super) async fn replay(
    backend: &Arc<dyn Backend>,
    plan: &Plan,
    meter: &mut dyn Meter,
) -> Result<(), BoxError> {
    let arena = Arena::new(backend).await?;
    let keys = Keys::used(&Claims::completed(arena.store()), KEYS).await?;
    let mut contenders = vec![Measured::on(&keys, IDEM, Replay(arena.store()))];
    for (name, connections) in Connections::all(&arena).await? {
        contenders.push(bare_select(name, connections).await?);
    }
    let callers = plan.pick(&[1, 64, 512][..], &[1, 64]);
    let scene = Scene::new(("replay", backend.name(), callers), contenders, |heat| {
        heat.rows("replay", IDEM)
    });
    meter.measure(scene).await?;
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
pub(super) async fn payload(
    backend: &Arc<dyn Backend>,
    plan: &Plan,
    meter: &mut dyn Meter,
) -> Result<(), BoxError> {
    for (bytes, path) in plan.pick(&SIZES[..], &SIZES[1..2]) {
        let arena = Arena::new(backend).await?;
        let mut contenders = lives(&arena, &Response::new(200, body(*bytes))).await?;
        contenders.retain(|contender| [IDEM, HELD].contains(&contender.name()));
        let scene = Scene::new((path, backend.name(), &[8]), contenders, |heat| {
            heat.rows(heat.path, IDEM)
        });
        meter.measure(scene).await?;
        arena.close().await?;
    }
    Ok(())
}
