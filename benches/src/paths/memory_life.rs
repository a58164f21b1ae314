//! The life of a key in memory, against a sharded map; no more is boxed than an application boxes.

use std::sync::Arc;

use dashmap::DashMap;
use idem_core::{BoxError, MemoryStore};

use super::Contenders;
use super::claim_fresh::IDEM;
use super::group::{Group, Heat};
use crate::ids::{response, text};
use crate::operations::ClaimComplete;
use crate::{Ids, Measured, Operation, Plan, Ratio, Row, Subject};

const MAP: &str = "dashmap";
const PATH: &str = "memory_life";
const MILLION: f64 = 1e6;

/// `insert`, then `get_mut`.
struct MapLife {
    map: DashMap<String, Option<Box<[u8]>>>,
    response: Box<[u8]>,
}

impl Operation for MapLife {
    type Caller = Ids;

    async fn caller(&self, _: usize) -> Result<Ids, BoxError> {
        Ok(Ids::series())
    }

    async fn step(&self, ids: &mut Ids) -> Result<(), BoxError> {
        let id = text(&ids.next_id());
        self.map.insert(id.clone(), None);
        let mut entry = self.map.get_mut(&id).ok_or("no such key")?;
        *entry = Some(self.response.clone());
        Ok(())
    }
}

pub(super) async fn measure(subject: &Subject, plan: &Plan) -> Result<Vec<Row>, BoxError> {
    if subject.name() != "memory" {
        return Ok(Vec::new());
    }
    let mut rows = Vec::new();
    for &callers in plan.pick(&[1, 2, 64][..], &[64]) {
        let mut group = Contenders::new();
        let life = ClaimComplete {
            store: Arc::new(MemoryStore::new()),
            response: response(),
        };
        group.push(Measured::boxed(IDEM, life));
        let map = MapLife {
            map: DashMap::new(),
            response: response().body().to_vec().into(),
        };
        group.push(Measured::boxed(MAP, map));
        let heat = Group::from(group).race(callers, plan).await?;
        rows.extend(heat.row((PATH, "memory"), IDEM, MAP));
        if callers == 64 {
            rows.extend(rate(&heat));
        }
    }
    Ok(rows)
}

/// Millions a second.
fn rate(heat: &Heat) -> Option<Row> {
    let figures = heat.standings().figures(IDEM)?;
    let rates = heat.standings().rates(IDEM)?;
    let millions: Vec<_> = rates.into_iter().map(|rate| rate / MILLION).collect();
    let ratio = Ratio::of(&millions)?;
    let row = Row::new(
        ("memory_life_rate", "memory", 64),
        "a million a second",
        ratio,
    );
    Some(row.with_figures(Some(figures), None).judged())
}
