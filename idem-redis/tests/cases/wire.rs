//! What goes over the wire.

use std::sync::Arc;
use std::time::{Duration, Instant};

use idem_conformance::proxy::Proxy;
use idem_conformance::{Case, CaseResult, Context, in_time};
use idem_core::{
    BatchStore, ClaimRequest, Effect, ErrorKind, IdempotencyStore, Record, StalePolicy,
};
use idem_redis::{Config, RedisStore};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::{on_the_wire, record_key};
use crate::support::{self, Tap};

pub(super) const HUNDREDS_OF_CLAIMS_SHARE_ONE_CONNECTION: Case =
    on_the_wire(16, "hundreds_of_claims_share_one_connection", |cx| {
        Box::pin(hundreds_of_claims_share_one_connection(cx))
    });
pub(super) const A_SWEEP_SCANS_IN_BOUNDED_STEPS: Case =
    on_the_wire(16, "a_sweep_scans_in_bounded_steps", |cx| {
        Box::pin(a_sweep_scans_in_bounded_steps(cx))
    });
pub(super) const A_CONNECTION_THAT_FELL_SILENT_IS_MADE_ANEW: Case =
    on_the_wire(14, "a_connection_that_fell_silent_is_made_anew", |cx| {
        Box::pin(a_connection_that_fell_silent_is_made_anew(cx))
    });
pub(super) const A_SWEEP_ON_A_CONNECTION_THAT_FELL_SILENT_IS_MADE_ANEW: Case = on_the_wire(
    14,
    "a_sweep_on_a_connection_that_fell_silent_is_made_anew",
    |cx| Box::pin(a_sweep_on_a_connection_that_fell_silent_is_made_anew(cx)),
);
pub(super) const A_SWEEP_CUT_HALF_WAY_IS_NOT_REPORTED_AS_UNDONE: Case =
    on_the_wire(14, "a_sweep_cut_half_way_is_not_reported_as_undone", |cx| {
        Box::pin(a_sweep_cut_half_way_is_not_reported_as_undone(cx))
    });

pub(super) const A_COMMAND_THAT_IS_REFUSED_IS_NAMED: Case =
    on_the_wire(14, "a_command_that_is_refused_is_named", |cx| {
        Box::pin(a_command_that_is_refused_is_named(cx))
    });

/// How long an operation on a silent connection may take here.
const SOON: Duration = Duration::from_millis(700);

async fn tapped(cx: &Context) -> CaseResult<(Tap, RedisStore)> {
    let server = support::harness(cx)?.server_address().expect("an address");
    let tap = Tap::start(server).await?;
    let config = Config::new().with_namespace(cx.namespace())?;
    let url = format!("redis://{}", tap.address());
    let store = RedisStore::connect(&url, config.with_timeout(SOON)).await?;
    Ok((tap, store))
}

async fn hundreds_of_claims_share_one_connection(cx: &Context) -> CaseResult {
    const CLAIMS: usize = 512;
    let (tap, store) = tapped(cx).await?;
    cx.hold(&cx.request(&cx.key("the script"))).await?;
    let before = tap.messages();
    tap.take();
    let (barrier, mut racers) = (Arc::new(Barrier::new(CLAIMS)), JoinSet::new());
    for number in 0..CLAIMS {
        let (store, barrier) = (store.clone(), Arc::clone(&barrier));
        let request = cx.request(&cx.key(format!("{number}")));
        racers.spawn(async move {
            barrier.wait().await;
            store.claim(&request).await.map(|outcome| outcome.name())
        });
    }
    for outcome in racers.join_all().await {
        assert_eq!(outcome?, "acquired");
    }
    let (said, messages) = (tap.take(), tap.messages() - before);
    assert_eq!(tap.connections(), 1);
    let scripts = said.matches("$7\r\nEVALSHA\r\n").count();
    assert!((1..=CLAIMS).contains(&scripts), "{scripts} scripts");
    for number in 0..CLAIMS {
        let name = record_key(&store, &cx.key(format!("{number}")));
        let claimed = said.matches(&format!("\r\n{name}\r\n")).count();
        assert!(claimed >= 1, "{name} is not claimed");
    }
    assert!(
        messages * 2 < CLAIMS,
        "{messages} messages for {CLAIMS} claims"
    );
    let requests: Vec<_> = (0..CLAIMS)
        .map(|number| cx.request(&cx.key(format!("of a batch {number}"))))
        .collect();
    for outcome in store.claim_many(&requests).await {
        assert_eq!(outcome?.name(), "acquired");
    }
    assert_eq!(tap.connections(), 1);
    Ok(())
}

async fn a_sweep_scans_in_bounded_steps(cx: &Context) -> CaseResult {
    let (tap, store) = tapped(cx).await?;
    for number in 0..3 {
        let stale = cx.request(&cx.key(format!("{number}")));
        cx.leave_stale(&stale.with_on_stale(StalePolicy::Fail))
            .await?;
    }
    let taken = cx.key("may be taken over");
    cx.leave_stale(&cx.request(&taken)).await?;
    tap.take();
    let prefix = format!("{}:r:", cx.namespace());
    // No more than requested, and none twice.
    for (limit, swept) in [(2, 2), (2, 1), (2, 0)] {
        assert_eq!(store.fail_abandoned(limit).await?, swept);
    }
    let record = store.get(&taken).await?;
    assert!(matches!(record, Some(Record::InFlight(_))), "{record:?}");
    let said = tap.take();
    let scans = said.matches("$4\r\nSCAN\r\n").count();
    let counts = said.matches("$5\r\nCOUNT\r\n$3\r\n500\r\n").count();
    let matches = said.matches(&format!("\r\n{prefix}*\r\n")).count();
    assert!(scans >= 2, "{scans} scans");
    assert_eq!(
        (counts, matches),
        (scans, scans),
        "in steps, and of its own"
    );
    assert!(!said.contains("\r\nKEYS\r\n"));
    Ok(())
}

async fn a_connection_that_fell_silent_is_made_anew(cx: &Context) -> CaseResult {
    let (tap, store) = tapped(cx).await?;
    let request = cx.request(&cx.key("one"));
    let claim = store.claim(&request).await?.acquired().expect("fresh");
    tap.fall_silent();
    let started = Instant::now();
    let error = store.release(&claim).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(error.effect(), Effect::Unknown, "{error}");
    in_time(started.elapsed(), SOON * 20)?;
    assert!(store.get(request.key()).await?.is_some(), "by a new one");
    assert_eq!(tap.connections(), 2);
    tap.fall_silent();
    let error = store.get(request.key()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(error.effect(), Effect::None, "{error}");
    store.release(&claim).await?;
    assert_eq!(tap.connections(), 3);
    tap.fall_silent();
    let batch = [cx.request(&cx.key("two")), cx.request(&cx.key("three"))];
    for outcome in store.claim_many(&batch).await {
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_eq!(error.effect(), Effect::Unknown, "{error}");
    }
    for outcome in store.claim_many(&batch).await {
        assert_eq!(outcome?.name(), "acquired");
    }
    Ok(())
}

/// A process without other calls would otherwise never fail an abandoned claim again.
async fn a_sweep_on_a_connection_that_fell_silent_is_made_anew(cx: &Context) -> CaseResult {
    let (tap, store) = tapped(cx).await?;
    store.fail_abandoned(10).await?;
    tap.fall_silent();
    let error = store.fail_abandoned(10).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(store.fail_abandoned(10).await?, 0);
    assert_eq!(tap.connections(), 2);
    Ok(())
}

/// There are so many keys that `fail_abandoned` scans several times. It is cut after ever more
/// messages: before anything was failed, among the records to be failed, and at a later scan.
async fn a_sweep_cut_half_way_is_not_reported_as_undone(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let server = harness.server_address().expect("an address");
    let proxy = Proxy::start(server).await?;
    let config = Config::new().with_namespace(cx.namespace())?;
    let store = RedisStore::connect(&format!("redis://{}", proxy.address()), config).await?;
    let requests: Vec<_> = (0..1200)
        .map(|number| cx.request(&cx.key(format!("{number}"))))
        .map(|request| request.with_on_stale(StalePolicy::Fail))
        .map(|request| request.with_lease(cx.short()))
        .collect();
    for outcome in store.claim_many(&requests).await {
        assert_eq!(outcome?.name(), "acquired");
    }
    cx.until_stale(requests[1199].key()).await?;
    let (mut before, mut half_way) = (0, 0);
    for passes in 0..300 {
        proxy.cut_after(passes);
        let swept = store.fail_abandoned(10_000).await;
        proxy.disarm();
        let failed = failed(&store, &requests).await?;
        let Err(error) = swept else {
            assert_eq!(failed, 1200);
            assert!(half_way > 0, "it was never cut half-way");
            return Ok(());
        };
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        if failed > before {
            half_way += 1;
            assert_eq!(error.effect(), Effect::Unknown, "{failed} failed: {error}");
        }
        before = failed;
    }
    Err("it was never let through".into())
}

/// Returns how many of these are failed; all are read at once.
async fn failed(store: &RedisStore, requests: &[ClaimRequest]) -> CaseResult<usize> {
    let mut reads = JoinSet::new();
    for request in requests {
        let (store, key) = (store.clone(), request.key().clone());
        reads.spawn(async move { store.get(&key).await });
    }
    let mut failed = 0;
    for record in reads.join_all().await {
        failed += usize::from(matches!(record?, Some(Record::Failed(_))));
    }
    Ok(failed)
}

/// By twemproxy, which closes the connection; in a script, by Redis 6.2 and by services.
async fn a_command_that_is_refused_is_named(cx: &Context) -> CaseResult {
    let cases = [
        ("INFO\r\n", "", "command INFO"),
        ("$4\r\nTIME\r\n", "", "command TIME"),
        ("EVAL\r\n", "", "command EVAL"),
        (
            "EVAL",
            "-ERR Error running script (call to f_1): @user_script:4: You can set the replication behavior only after \
             turning on single commands replication with redis.replicate_commands().\r\n",
            "`lua-replicate-commands yes`",
        ),
        (
            "EVAL",
            "-ERR This Redis command is not allowed from script script: f_1, on @user_script:1.\r\n",
            "TIME",
        ),
        ("EVAL", "-ERR not in this plan\r\n", "`TIME`"),
    ];
    let server = support::harness(cx)?.server_address().expect("an address");
    let config = Config::new().with_namespace(cx.namespace())?;
    let config = config.with_timeout(Duration::from_secs(60));
    for (word, answer, named) in cases {
        let tap = Tap::start(server).await?;
        let url = format!("redis://{}", tap.address());
        let store = RedisStore::connect(&url, config.clone()).await?;
        assert!(!tap.take().contains("CLIENT"), "twemproxy closes at it");
        tap.refuse(word, answer);
        let mut errors = vec![RedisStore::connect(&url, config.clone()).await.unwrap_err()];
        if !answer.is_empty() {
            errors.push(store.verify().await.unwrap_err());
        }
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Misconfigured, "{word}: {error}");
            assert_eq!(error.effect(), Effect::None, "{word}: {error}");
            assert!(error.to_string().contains(named), "{word}: {error}");
        }
    }
    Ok(())
}
