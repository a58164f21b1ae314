//! Breaker and budget as a caller sees them, under a clock that stands still.

use std::time::Duration;

use idem_hybrid::Config;
use tokio::time::Instant;

use super::fixture::{Fault, Hybrid, hybrid_with, name, request};

const BUDGET: Duration = Duration::from_millis(50);

fn config() -> Config {
    Config::new().with_budget(BUDGET)
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_hangs_costs_the_budget_and_after_five_calls_nothing() {
    let hybrid = hybrid_with(config());
    hybrid.complete("done", "x").await;
    hybrid.cache.set(Fault::Hanging);
    for call in 0..20 {
        let started = Instant::now();
        assert_eq!(name(&hybrid, &request("done")).await, "completed");
        let spent = started.elapsed();
        if call < 5 {
            assert!((BUDGET..BUDGET * 2).contains(&spent), "{call}: {spent:?}");
        } else {
            assert!(spent.is_zero(), "{call}: {spent:?}");
        }
    }
    let metrics = hybrid.store.metrics();
    assert_eq!((metrics.errors, metrics.skipped), (5, 15));
}

/// Opens the breaker of a store whose cache has an entry.
async fn opened() -> Hybrid {
    let hybrid = hybrid_with(config());
    hybrid.cached("done", "x").await;
    hybrid.cache.set(Fault::Failing);
    for _ in 0..5 {
        name(&hybrid, &request("done")).await;
    }
    hybrid
}

/// Lets the background work go as far as it can without time.
async fn work_off() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn one_probe_at_a_time_finds_out_that_the_cache_is_back() {
    let hybrid = opened().await;
    hybrid.cache.set(Fault::Hanging);
    tokio::time::advance(Duration::from_millis(100)).await;
    let (reads, done) = (hybrid.cache.reads(), request("done"));
    let started = Instant::now();
    let calls = (0..10).map(|_| name(&hybrid, &done));
    let names = futures_util::future::join_all(calls).await;
    work_off().await;
    assert_eq!(names, ["completed"; 10]);
    assert_eq!(hybrid.cache.reads(), reads + 1, "probes");
    assert!(
        started.elapsed().is_zero(),
        "no caller waited for the probe"
    );
    // The probe is given up after a second; the pause is then twice as long.
    tokio::time::sleep(Duration::from_millis(1001)).await;
    hybrid.cache.set(Fault::None);
    tokio::time::advance(Duration::from_millis(140)).await;
    name(&hybrid, &done).await;
    work_off().await;
    assert_eq!(hybrid.cache.reads(), reads + 1, "the pause has doubled");
    tokio::time::advance(Duration::from_millis(60)).await;
    name(&hybrid, &done).await;
    work_off().await;
    assert_eq!(hybrid.cache.reads(), reads + 3, "a probe reads twice");
    let hits = hybrid.store.metrics().hits;
    for _ in 0..3 {
        name(&hybrid, &done).await;
    }
    assert_eq!(hybrid.store.metrics().hits, hits + 3, "it is used again");
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_answers_after_the_budget_stays_left_alone() {
    let hybrid = opened().await;
    hybrid.cache.set(Fault::Slow);
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_secs(11)).await;
        let (started, errors) = (Instant::now(), hybrid.store.metrics().errors);
        assert_eq!(name(&hybrid, &request("done")).await, "completed");
        assert!(started.elapsed().is_zero());
        assert_eq!(hybrid.store.metrics().errors, errors);
    }
    assert!(hybrid.cache.reads() >= 20, "it was probed each time");
}

#[tokio::test(start_paused = true)]
async fn promotions_that_hang_are_bounded_and_do_not_hold_callers_up() {
    let hybrid = hybrid_with(config().with_max_background(3));
    for id in ["one", "two", "three", "four", "five"] {
        hybrid.complete(id, "x").await;
        hybrid.cache.store_gate.shut();
        assert_eq!(name(&hybrid, &request(id)).await, "completed");
        // Waits until the promotion, if there is one, is at its gate.
        tokio::task::yield_now().await;
    }
    assert_eq!(hybrid.store.metrics().skipped, 2);
    hybrid.store.settled().await;
    let metrics = hybrid.store.metrics();
    assert_eq!(
        (metrics.promoted, metrics.errors),
        (0, 3),
        "given up after a second"
    );
}
