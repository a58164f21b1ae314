//! What the handlers of all drivers share: the call of the engine, the repetition of a transaction,
//! and a check that every payment was made once.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use idem_core::{
    BoxError, BusyPolicy, Claim, Idempotency, IdempotencyStore, Key, Policy, Response, Work,
};

/// The part of the handler that differs from driver to driver.
pub(crate) trait Payments: Sync {
    /// Writes the payment's row and the record in one transaction.
    fn write(
        &self,
        key: &Key,
        cents: i64,
        sealed: Sealed<'_>,
    ) -> impl Future<Output = Result<(), BoxError>> + Send;

    /// Returns how many rows have such keys.
    fn count(&self, like: &str) -> impl Future<Output = Result<i64, BoxError>>;
}

/// What `complete_in` gets.
#[derive(Clone, Copy)]
pub(crate) struct Sealed<'c>(
    pub(crate) &'c Claim,
    pub(crate) &'c Response,
    pub(crate) Duration,
);

/// Handles a request: the same key again, at the same time or later, gets the same receipt. The
/// transaction is repeated where a concurrent one was in the way.
async fn pay(
    idempotency: &Idempotency,
    payments: &impl Payments,
    is_retryable: fn(&(dyn Error + 'static)) -> bool,
    key: &Key,
    cents: i64,
) -> Result<String, BoxError> {
    let pay = async |work: Work| {
        let claim = work.claim().ok_or("the key is not protected")?;
        let receipt = format!("receipt of {cents} cents");
        let response = Response::json(&receipt)?;
        let sealed = Sealed(&claim, &response, Policy::default().retention());
        loop {
            match payments.write(key, cents, sealed).await {
                Err(error) if is_retryable(&*error) => {}
                Err(error) => return Err(error),
                Ok(()) => return Ok::<_, BoxError>(receipt),
            }
        }
    };
    let paid = idempotency.run(key, &("EUR", cents), pay).await;
    Ok(paid.map_err(|error| error.to_string())?.into_inner())
}

/// Makes twenty payments, each of which four callers request at the same time.
pub(crate) async fn open<S: IdempotencyStore + 'static>(
    store: Arc<S>,
    payments: impl Payments,
    is_retryable: fn(&(dyn Error + 'static)) -> bool,
) -> Result<(), BoxError> {
    let waits = Policy::default().with_on_busy(BusyPolicy::wait(Duration::from_secs(10)));
    let idempotency = Idempotency::new(store).with_policy(waits);
    let run: u64 = rand::random();
    for number in 0..20 {
        let key = Key::new("customer-7", "payments.create", format!("{run}-{number}"))?;
        let pay = |_| pay(&idempotency, &payments, is_retryable, &key, 1250 + number);
        let receipts = try_join_all((0..4).map(pay)).await?;
        println!("{} × 4", receipts[0]);
        if receipts.iter().any(|receipt| *receipt != receipts[0]) {
            return Err(format!("different receipts: {receipts:?}").into());
        }
    }
    match payments.count(&format!("{run}-%")).await? {
        20 => println!("Every payment was made exactly once."),
        rows => return Err(format!("{rows} payments for 20 keys").into()),
    }
    Ok(())
}

/// Returns the server's URL, the only argument.
#[allow(dead_code, reason = "SQLite has no server")]
pub(crate) fn url() -> Result<String, BoxError> {
    let url = std::env::args().nth(1);
    Ok(url.ok_or("name a server, such as postgres://app@localhost/shop")?)
}
