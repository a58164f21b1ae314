//! Runs of all kinds.

use std::error::Error;
use std::io;
use std::time::Duration;

use idem_core::engine::observe::{CacheCounts, MetricsObserver};
use idem_core::{BusyPolicy, Idempotency, Key, MemoryStore, Policies, Policy, Work};

/// Runs fresh and repeated payments, a conflict, a failure, one payment that waits for another, and
/// one that loses its lease.
pub(crate) async fn some_runs(round: u64) -> Result<(), Box<dyn Error>> {
    MetricsObserver::describe();
    let class = |scope: &str| {
        if scope.starts_with("trial-") {
            "trial"
        } else {
            "paying"
        }
    };
    let slow = Policy::default().with_on_busy(BusyPolicy::wait(Duration::from_secs(5)));
    let blocked = Policy::default().with_lease(Duration::from_millis(30));
    let policies = Policies::default()
        .with_operation("reports.monthly", slow)
        .with_operation("reports.yearly", blocked);
    let idem = Idempotency::new(MemoryStore::new())
        .with_policies(policies)
        .with_observer(MetricsObserver::new().with_scope_class(class));
    let key = |scope, operation| Key::new(scope, operation, format!("request {round}"));

    // Traffic grows, and begins again.
    for customer in 0..=round / 10 % 6 {
        let payment = Key::new("acme", "payments.create", format!("{round} of {customer}"))?;
        let charge = async |_: Work| Ok::<_, io::Error>("receipt".to_owned());
        // The last one sends another request under the same key.
        for amount in [1250, 1250, 1250, 999] {
            let _ = idem.run(&payment, &amount, charge).await;
        }
    }
    let declined = async |_: Work| Err::<(), _>(io::Error::other("declined"));
    let _ = idem
        .run(&key("trial-7", "payments.create")?, &1250, declined)
        .await;

    let report = key("acme", "reports.monthly")?;
    let slow = async |_: Work| {
        tokio::time::sleep(Duration::from_millis(20)).await;
        Ok::<_, io::Error>(7)
    };
    let (one, two) = tokio::join!(idem.run(&report, &1, slow), idem.run(&report, &1, slow));
    assert_eq!(one?.into_inner(), two?.into_inner());
    let blocks = async |_: Work| {
        // Blocks this thread, and the renewals with it.
        std::thread::sleep(Duration::from_millis(50));
        Ok::<_, io::Error>(7)
    };
    idem.run(&key("acme", "reports.yearly")?, &1, blocks)
        .await?;

    // With a cache in front of the store, `HybridStore::metrics` returns these numbers.
    let counts = CacheCounts {
        hits: 2 * (round + 1),
        misses: 4 * (round + 1),
        promotions: 3 * (round + 1),
        ..CacheCounts::default()
    };
    counts.publish();
    Ok(())
}
