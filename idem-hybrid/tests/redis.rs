//! The contract of a cache as Redis keeps it, alone and as the far tier; and two services on one
//! Redis.

mod contract;

use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use idem_core::{
    AttemptId, ClaimRequest, Fingerprint, IdempotencyStore, Key, MemoryStore, Response,
};
use idem_hybrid::{HybridStore, LocalCache, RedisCache, Tiered, idem_redis};
use idem_servers::{Options, start_private};
use libtest_mimic::{Arguments, Failed, Trial};

const HOUR: Duration = Duration::from_secs(3600);

macro_rules! trials {
    ($ignored:expr; $($test:ident),+ $(,)?) => {
        vec![$(
            trial(concat!("redis::", stringify!($test)), $ignored, || async {
                contract::$test(redis()).await;
            }),
            trial(concat!("tiered::", stringify!($test)), $ignored, || async {
                contract::$test(tiered()).await;
            }),
        )+]
    };
}

fn main() -> ExitCode {
    let missing = idem_servers::url_for("redis").is_none();
    if missing {
        eprintln!("ignored: {}", idem_servers::missing_reason("redis"));
    }
    let mut trials = trials![
        missing;
        an_entry_is_served_as_it_was_stored,
        keys_never_mix,
        an_entry_is_served_until_its_lifetime_ends_and_not_after,
        lifetimes_count_from_the_ticket,
        an_invalidated_entry_is_served_no_more,
        a_late_store_after_an_invalidation_is_refused,
        a_ticket_is_good_however_many_reads_come_after_it,
        no_race_brings_an_old_entry_back,
    ];
    trials.push(trial(
        "two_services_on_one_redis_never_mix",
        missing,
        never_mix,
    ));
    let server = idem_servers::server("redis").ok();
    let no_programs = server.and_then(idem_servers::Server::programs).is_none();
    trials.push(trial(
        "after_a_restart_a_late_store_is_refused",
        no_programs,
        lost_memory,
    ));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trial<F, Fut>(name: &str, ignored: bool, test: F) -> Trial
where
    F: FnOnce() -> Fut + Send + 'static,
    Fut: Future<Output = ()>,
{
    let run = move || {
        let runtime =
            tokio::runtime::Runtime::new().map_err(|error| Failed::from(error.to_string()))?;
        runtime.block_on(test());
        Ok(())
    };
    Trial::test(name, run).with_ignored_flag(ignored)
}

fn namespace() -> String {
    let random = u128::from_be_bytes(*AttemptId::random().as_bytes());
    format!("test-{random:032x}")
}

fn at(url: &str, namespace: &str) -> RedisCache {
    RedisCache::new(url, namespace, &idem_redis::Config::new()).expect("a URL and a name")
}

fn redis() -> RedisCache {
    at(
        &idem_servers::url_for("redis").expect("a server"),
        &namespace(),
    )
}

fn tiered() -> Arc<Tiered<LocalCache, RedisCache>> {
    let local = LocalCache::new(1 << 20);
    Arc::new(Tiered::new(local, redis()).with_far_budget(Duration::from_secs(5)))
}

/// Both have the same tenant and the same key.
async fn never_mix() {
    let url = idem_servers::url_for("redis").expect("a server");
    let (first, second) = (namespace(), namespace());
    let service = |name: &str| HybridStore::new(at(&url, name), MemoryStore::new());
    let (orders, refunds) = (service(&first), service(&second));
    let key = Key::new("tenant", "payments.create", "one").expect("valid");
    let request = || ClaimRequest::new(key.clone(), Fingerprint::raw("request"));
    for (store, body) in [(&orders, "of orders"), (&refunds, "of refunds")] {
        let claim = store
            .claim(&request())
            .await
            .expect("claim")
            .acquired()
            .expect("fresh");
        let response = Response::new(200, body);
        store
            .complete(&claim, &response, HOUR)
            .await
            .expect("complete");
        for _ in 0..3 {
            let record = store.get(&key).await.expect("get").expect("completed");
            assert_eq!(record.response(), Some(&response));
            store.settled().await;
        }
        assert!(store.metrics().hits > 0, "{:?}", store.metrics());
    }
    orders.invalidate(&key).await.expect("invalidate");
    let hits = refunds.metrics().hits;
    refunds.get(&key).await.expect("get");
    assert_eq!(
        refunds.metrics().hits,
        hits + 1,
        "the other's entry is gone"
    );
}

async fn lost_memory() {
    let server = start_private("redis", &Options::new()).expect("a server of our own");
    let cache = at(server.url(), &namespace());
    let server = Mutex::new(server);
    let restart = || {
        let mut server = server.lock().expect("unpoisoned");
        server.kill().expect("kill");
        server.restart().expect("restart");
    };
    contract::after_a_loss_of_memory_a_late_store_is_refused(cache, async |cache: &RedisCache| {
        tokio::task::block_in_place(restart);
        // The connection is dead; the first call may be the one that discovers it.
        let key = Key::new("any", "any", "any").expect("valid");
        let _ = cache.read(&key).await;
    })
    .await;
}
