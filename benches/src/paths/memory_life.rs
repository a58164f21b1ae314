//! The life of a key in memory against a sharded map. Only what an application boxes is boxed.

use std::sync::Arc;

use dashmap::DashMap;
use idem_core::{BoxError, MemoryStore};

use super::{IDEM, Visit};
use crate::Ratio;
use crate::ids::{response, text};
use crate::measured::Measured;
use crate::operations::{Claims, Operation};

const MAP: &str = "dashmap";
const MILLION: f64 = 1e6;

/// `insert`, then `get_mut`.
struct MapLife {
    map: DashMap<String, Option<Box<[u8]>>>,
    response: Box<[u8]>,
}

impl Operation for MapLife {
    type Connection = ();

    async fn connect(&self) -> Result<(), BoxError> {
        Ok(())
    }

    async fn step(&self, (): &mut (), id: &str) -> Result<(), BoxError> {
        let id = text(id);
        self.map.insert(id.clone(), None);
        let mut entry = self.map.get_mut(&id).ok_or("no such key")?;
        *entry = Some(self.response.clone());
        Ok(())
    }
}

pub(super) async fn visit(visit: Visit<'_>) -> Result<(), BoxError> {
    // Neither side starts with the keys of another number of callers.
    for callers in visit.plan.pick(&[&[1], &[2], &[64]][..], &[&[64]]) {
        let life = Claims::completed(Arc::new(MemoryStore::new()));
        let map = MapLife {
            map: DashMap::new(),
            response: response().body().to_vec().into(),
        };
        let contenders = vec![Measured::boxed(IDEM, life), Measured::boxed(MAP, map)];
        let scene = visit.scene("memory_life", *callers, contenders, |heat| {
            let rates = heat.standings.rates(IDEM).into_iter();
            let millions = Ratio::of(rates.map(|rate| rate / MILLION).collect());
            let sides = [IDEM, "a million a second"];
            let rate = millions.filter(|_| heat.callers == 64);
            let rate = rate.map(|rate| heat.with("memory_life_rate", sides, rate));
            let life = heat.row("memory_life", IDEM, MAP);
            life.into_iter().chain(rate).collect()
        });
        visit.meter.measure(scene).await?;
    }
    Ok(())
}
