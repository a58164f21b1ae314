//! The audit: effects and records against orders.

use std::collections::BTreeMap;

use idem_core::{BoxError, IdempotencyStore, Record};
use idem_examples::effects::Effects;
use idem_examples::report::Report;

use super::Order;

/// Returns whether all orders have ended: completed, or failed for good.
pub(crate) async fn are_over(
    store: &dyn IdempotencyStore,
    orders: &[Order],
) -> Result<bool, BoxError> {
    for order in orders {
        let record = store.get(&order.key()?).await?;
        if matches!(record, None | Some(Record::InFlight(_))) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Compares the orders with the shipped ones.
pub(crate) async fn audit(
    report: &mut Report,
    effects: &Effects,
    orders: &[Order],
) -> Result<(), BoxError> {
    let (store, effects) = (effects.store(), effects.all().await?);
    let (mut shipped, mut taken_over) = (0, 0);
    let mut failures: BTreeMap<String, u64> = BTreeMap::new();
    for order in orders {
        let times = effects.iter().filter(|id| **id == order.id).count();
        let record = store.get(&order.key()?).await?;
        match (order.kind.is_poison(), record, times) {
            (false, Some(Record::Completed(completed)), 1) => {
                shipped += 1;
                taken_over += u64::from(completed.info.attempts > 1);
            }
            (true, Some(Record::Failed(failed)), 0) => {
                let code = failed.failure.code().to_owned();
                *failures.entry(code).or_default() += 1;
            }
            (_, record, times) => {
                let state = match record {
                    None => "free",
                    Some(Record::InFlight(_)) => "in flight",
                    Some(Record::Completed(_)) => "completed",
                    Some(Record::Failed(_)) => "failed",
                };
                let Order { id, kind, .. } = order;
                report.wrong(format!("{id} ({kind:?}) is {state}, shipped {times} times"));
            }
        }
    }
    let is_known = |id: &&String| orders.iter().any(|order| order.id == **id);
    for id in effects.iter().filter(|id| !is_known(id)) {
        report.wrong(format!("{id} was shipped and never ordered"));
    }
    report.count("shipped", shipped, "once each");
    report.count("taken over", taken_over, "of them, from a dead consumer");
    for (code, times) in failures {
        report.count("failed", times, &format!("recorded as {code}"));
    }
    Ok(())
}
