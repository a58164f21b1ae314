//! The audit: effects and records against orders.

use std::collections::BTreeMap;

use idem_core::{BoxError, IdempotencyStore, Record};

use super::Order;
use crate::effects::Effect;

/// The result of the audit.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Orders shipped once.
    pub shipped: u64,
    /// Orders that ended as failed, by the failure's code.
    pub failed: BTreeMap<String, u64>,
    /// Orders shipped by a consumer that took over from a dead one.
    pub taken_over: u64,
    /// The errors found, one line each.
    pub wrong: Vec<String>,
}

/// Compares the orders with the shipped ones.
///
/// # Errors
///
/// An error when the store does not answer.
pub async fn audit(
    store: &dyn IdempotencyStore,
    orders: &[Order],
    effects: &[Effect],
) -> Result<Audit, BoxError> {
    let mut audit = Audit::default();
    for order in orders {
        let shipped: Vec<_> = effects
            .iter()
            .filter(|effect| effect.id == order.id)
            .collect();
        let record = store.get(&order.key()?).await?;
        match (order.kind.is_poison(), record, shipped.len()) {
            (false, Some(Record::Completed(_)), 1) => {
                audit.shipped += 1;
                audit.taken_over += u64::from(shipped[0].attempts > 1);
            }
            (true, Some(Record::Failed(failed)), 0) => {
                let code = failed.failure.code().to_owned();
                *audit.failed.entry(code).or_default() += 1;
            }
            (_, record, times) => {
                let state = record.map_or("free", |record| match record {
                    Record::InFlight(_) => "in flight",
                    Record::Completed(_) => "completed",
                    Record::Failed(_) => "failed",
                });
                let line = format!(
                    "{} ({:?}) is {state}, shipped {times} times",
                    order.id, order.kind
                );
                audit.wrong.push(line);
            }
        }
    }
    let foreign = effects
        .iter()
        .filter(|effect| orders.iter().all(|order| order.id != effect.id));
    let foreign = foreign.map(|effect| format!("{} was shipped and never ordered", effect.id));
    audit.wrong.extend(foreign);
    Ok(audit)
}
