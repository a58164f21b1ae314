//! The engine's own policy behind the layer or middleware.

use std::time::Duration;

use http::StatusCode;
use idem_core::{BusyPolicy, Idempotency, MemoryStore, Policy};
use idem_http::ProblemType;

use crate::support::{App, layer_on, post, until};

fn slow(policy: Policy, pause: Duration) -> App {
    let idempotency = Idempotency::new(MemoryStore::new()).with_policy(policy);
    App::new(layer_on(idempotency), move |_| async move {
        tokio::time::sleep(pause).await;
        "done"
    })
}

#[tokio::test]
async fn the_lease_is_kept_alive_while_the_handler_runs() {
    let lease = Duration::from_millis(150);
    let app = slow(Policy::default().with_lease(lease), lease * 5);
    let first = tokio::spawn({
        let app = app.clone();
        async move { app.send(post("a", "{}")).await }
    });
    app.until_runs(1).await;
    while !first.is_finished() {
        let answer = app.send(post("a", "{}")).await;
        if answer.status != StatusCode::OK {
            answer.problem(ProblemType::RequestInFlight);
        }
        tokio::time::sleep(lease / 10).await;
    }
    assert_eq!(first.await.unwrap().text(), "done");
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn a_duplicate_can_wait_for_the_answer() {
    let policy = Policy::default().with_on_busy(BusyPolicy::wait(Duration::from_secs(20)));
    let app = slow(policy, Duration::from_millis(50));
    let (one, two) = tokio::join!(app.send(post("a", "{}")), app.send(post("a", "{}")));
    assert_eq!((one.text(), two.text()), ("done", "done"));
    assert!(one.is_replayed() != two.is_replayed());
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn a_client_that_goes_away_while_it_waits_waits_no_more() {
    let policy = Policy::default().with_on_busy(BusyPolicy::wait(Duration::from_secs(600)));
    let idempotency = Idempotency::new(MemoryStore::new())
        .with_policy(policy)
        .with_max_waiters(1);
    let app = App::new(layer_on(idempotency), |_| std::future::pending::<()>());
    let send = || {
        let app = app.clone();
        tokio::spawn(async move { app.send(post("a", "{}")).await })
    };
    let _first = send();
    app.until_runs(1).await;
    let soon = Duration::from_millis(50);
    let probe = async || tokio::time::timeout(soon, app.send(post("a", "{}"))).await;
    let both = async {
        loop {
            let waiter = send();
            tokio::time::sleep(soon).await;
            match probe().await {
                // There is room for one waiting caller, and it is taken.
                Ok(refused) if !waiter.is_finished() => break (waiter, refused),
                // On a busy machine the probe was first.
                _ => waiter.abort(),
            }
        }
    };
    let both = tokio::time::timeout(Duration::from_secs(20), both).await;
    let (waiter, refused) = both.expect("a caller waits, and the next one is refused");
    refused.problem(ProblemType::RequestInFlight);
    waiter.abort();
    until(async || probe().await.is_err()).await;
    assert_eq!(app.runs(), 1);
}
