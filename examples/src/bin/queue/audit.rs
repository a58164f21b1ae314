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
        let own = effects.iter().filter(|effect| effect.id == order.id);
        let own: Vec<_> = own.collect();
        match (
            order.kind.is_poison(),
            store.get(&order.key()?).await?,
            &own[..],
        ) {
            (false, Some(Record::Completed(_)), [effect]) => {
                shipped += 1;
                taken_over += u64::from(effect.attempts > 1);
            }
            (true, Some(Record::Failed(failed)), []) => {
                let code = failed.failure.code().to_owned();
                *failures.entry(code).or_default() += 1;
            }
            (_, record, own) => {
                let state = record.map_or("free", |record| match record {
                    Record::InFlight(_) => "in flight",
                    Record::Completed(_) => "completed",
                    Record::Failed(_) => "failed",
                });
                let (Order { id, kind, .. }, times) = (order, own.len());
                report.wrong(format!("{id} ({kind:?}) is {state}, shipped {times} times"));
            }
        }
    }
    for effect in &effects {
        if orders.iter().all(|order| order.id != effect.id) {
            report.wrong(format!("{} was shipped and never ordered", effect.id));
        }
    }
    report.count("shipped", shipped, "once each");
    report.count("taken over", taken_over, "of them, from a dead consumer");
    for (code, times) in failures {
        report.count("failed", times, &format!("recorded as {code}"));
    }
    Ok(())
}
