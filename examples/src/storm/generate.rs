//! Generated requests, for when there is no input.

use idem_core::Fingerprint;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::value::RawValue;

use super::input::Event;
use super::stop::Stop;
use super::workload::Workload;

/// Draws `count` payments; the same seed gives the same payments.
pub(crate) fn payments(count: u32, seed: u64) -> Result<Workload, Stop> {
    let mut rng = StdRng::seed_from_u64(seed.wrapping_add(1));
    let mut workload = Workload::default();
    for number in 1..=count {
        let event = payment(number, &mut rng)
            .map_err(|error| Stop::because("a request cannot be generated", &*error))?;
        workload.add(event);
    }
    Ok(workload)
}

fn payment(number: u32, rng: &mut StdRng) -> Result<Event, idem_core::BoxError> {
    let id = format!("payment-{number:06}");
    let currency = ["EUR", "USD", "JPY", "CHF"][rng.random_range(0..4)];
    let (customer, cents) = (rng.random_range(1..10_000), rng.random_range(1..1_000_000));
    let text = format!(
        r#"{{"id":"{id}","customer":{customer},"amount":{cents},"currency":"{currency}"}}"#
    );
    Ok(Event {
        id,
        fingerprint: Fingerprint::json(&text)?,
        payload: RawValue::from_string(text)?,
    })
}
