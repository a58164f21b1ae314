//! Notifications to waiting runs: on a connection straight to the server, even where the store goes
//! through PgBouncer.

use std::time::{Duration, Instant};

use idem_conformance::{Case, CaseError, CaseResult, Context};
use idem_core::backend::{ChangeNotifier, Subscription};
use idem_core::{
    AttemptId, BatchStore, BusyPolicy, ErrorKind, Failure, Finish, Idempotency, IdempotencyStore,
    Key, Policy, Response, StalePolicy,
};
use idem_postgres::{Notifications, PostgresNotifier, PostgresStore};
use sqlx::postgres::{PgConnection, PgListener};
use sqlx::{Connection, Row};
use tokio::task::JoinSet;

use super::{case, direct};
use crate::support;

pub(super) const A_LISTENER_IS_TOLD_OF_EVERY_END: Case =
    case(2, "a_listener_is_told_of_every_end", |cx| {
        Box::pin(a_listener_is_told_of_every_end(cx))
    });
pub(super) const RUNS_THAT_WAIT_SHARE_ONE_CONNECTION: Case =
    case(2, "runs_that_wait_share_one_connection", |cx| {
        Box::pin(runs_that_wait_share_one_connection(cx))
    });
pub(super) const A_KILLED_CONNECTION_IS_TOLD_AND_HEARS_AGAIN: Case =
    case(14, "a_killed_connection_is_told_and_hears_again", |cx| {
        Box::pin(a_killed_connection_is_told_and_hears_again(cx))
    });
pub(super) const WHAT_CHANGES_NOTHING_TELLS_NOTHING: Case =
    case(15, "what_changes_nothing_tells_nothing", |cx| {
        Box::pin(what_changes_nothing_tells_nothing(cx))
    });
pub(super) const A_TRANSACTION_TELLS_WHEN_IT_COMMITS: Case =
    case(12, "a_transaction_tells_when_it_commits", |cx| {
        Box::pin(a_transaction_tells_when_it_commits(cx))
    });
pub(super) const A_CONNECTION_THAT_NOBODY_NEEDS_IS_CLOSED: Case =
    case(16, "a_connection_that_nobody_needs_is_closed", |cx| {
        Box::pin(a_connection_that_nobody_needs_is_closed(cx))
    });
pub(super) const WITHOUT_A_CONNECTION_THOSE_WHO_WAIT_POLL: Case =
    case(14, "without_a_connection_those_who_wait_poll", |cx| {
        Box::pin(without_a_connection_those_who_wait_poll(cx))
    });

const HOUR: Duration = Duration::from_secs(3600);
const DEADLINE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(5);

const ENDS: [&str; 4] = ["complete", "fail", "release", "batch"];

async fn notifying_store(cx: &Context, notifications: Notifications) -> CaseResult<PostgresStore> {
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    let config = store.config().clone().with_notifications(notifications);
    Ok(PostgresStore::with_config(store.pool().clone(), config))
}

/// Creates a notifier past the pooler, whose connection has the name of the case's namespace.
fn notifier(cx: &Context, store: &PostgresStore) -> CaseResult<PostgresNotifier> {
    let options = direct()?.options()?.application_name(cx.namespace());
    Ok(store.notifier_through(options))
}

/// Listens. On a busy machine the connection may take longer than the first listener waits.
async fn listen(notifier: &PostgresNotifier, key: &Key) -> CaseResult<Subscription> {
    let begin = Instant::now();
    loop {
        match notifier.listen(key).await {
            Err(error) if error.kind() == ErrorKind::Unavailable && begin.elapsed() < DEADLINE => {
                tokio::time::sleep(PAUSE).await;
            }
            listener => return Ok(listener?),
        }
    }
}

/// Counts the case's listening connections; "kill" ends them, too.
async fn connections(cx: &Context, what: &'static str) -> CaseResult<i64> {
    let mut connection = PgConnection::connect_with(&direct()?.options()?).await?;
    let sql = match what {
        "kill" => {
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1"
        }
        _ => "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1",
    };
    let query = sqlx::query(sql).bind(cx.namespace()).persistent(false);
    let count = query.fetch_one(&mut connection).await?.try_get(0)?;
    connection.close().await?;
    Ok(count)
}

async fn until_connections(cx: &Context, expected: i64) -> CaseResult {
    let started = Instant::now();
    while connections(cx, "count").await? != expected {
        if started.elapsed() > DEADLINE {
            return Err(CaseError::new(format!("not {expected} connections")));
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

async fn returned(listener: &mut Subscription) -> CaseResult {
    let returned = tokio::time::timeout(DEADLINE, listener.changed()).await;
    returned.map_err(|_| CaseError::new("the listener was not notified"))
}

/// Waits until no notification is under way.
async fn drained(listener: &mut Subscription) {
    let quiet = Duration::from_millis(50);
    while tokio::time::timeout(quiet, listener.changed())
        .await
        .is_ok()
    {}
}

/// Ends a claim in each possible way, twice, and claims the key once more.
async fn end(store: &PostgresStore, cx: &Context, how: &str) -> CaseResult {
    let request = cx.request(&cx.key(how));
    let claim = store.claim(&request).await?.acquired().expect("fresh");
    let response = Response::new(200, "done");
    for _ in 0..2 {
        match how {
            "complete" => store.complete(&claim, &response, HOUR).await?,
            "fail" => {
                let failure = Failure::new("no", "no");
                store.fail(&claim, &failure, HOUR).await?;
            }
            "release" => store.release(&claim).await?,
            _ => {
                let item = Finish::Complete {
                    claim: claim.clone(),
                    response: response.clone(),
                    retention: HOUR,
                };
                let done = store.finish_many(&[item]).await;
                done.into_iter().collect::<Result<(), _>>()?;
            }
        }
    }
    if how != "release" {
        let again = request.with_attempt(AttemptId::random());
        assert!(store.claim(&again).await?.acquired().is_none());
    }
    Ok(())
}

async fn a_listener_is_told_of_every_end(cx: &Context) -> CaseResult {
    let store = notifying_store(cx, Notifications::Changes).await?;
    let notifier = notifier(cx, &store)?;
    for how in ENDS {
        let key = cx.key(how);
        let (mut one, mut two) = (
            listen(&notifier, &key).await?,
            listen(&notifier, &key).await?,
        );
        let mut other = listen(&notifier, &cx.key("other")).await?;
        drained(&mut other).await;
        drained(&mut one).await;
        end(&store, cx, how).await?;
        returned(&mut one).await?;
        returned(&mut two).await?;
        let quiet = tokio::time::timeout(PAUSE, other.changed()).await;
        assert!(quiet.is_err(), "notified of another key");
    }
    Ok(())
}

/// Hundreds of runs, most of which start while the connection is made.
async fn runs_that_wait_share_one_connection(cx: &Context) -> CaseResult {
    let store = notifying_store(cx, Notifications::Changes).await?;
    let notifier = notifier(cx, &store)?;
    let policy = Policy::default().with_on_busy(BusyPolicy::wait(DEADLINE));
    let idem = Idempotency::new(store.clone())
        .with_notifier(notifier.clone())
        .with_policy(policy);
    let request = cx.request(&cx.key("one"));
    let claim = cx.claim(&request).await?;
    let mut listening = JoinSet::new();
    for number in 0..200 {
        let (notifier, key) = (notifier.clone(), cx.key(format!("{number}")));
        listening.spawn(async move { listen(&notifier, &key).await });
    }
    let mut runs = JoinSet::new();
    for _ in 0..20 {
        let (idem, fingerprint) = (idem.clone(), *request.fingerprint());
        let key = request.key().clone();
        runs.spawn(async move {
            let run = idem.run_with(&key, fingerprint, async |_| Err::<u32, _>("it runs twice"));
            run.await
        });
    }
    let listeners = listening.join_all().await;
    until_connections(cx, 1).await?;
    store.complete(&claim, &Response::json(&42)?, HOUR).await?;
    for outcome in runs.join_all().await {
        assert_eq!(outcome.expect("a replay").into_replayed(), Some(42));
    }
    assert_eq!(connections(cx, "count").await?, 1);
    assert!(listeners.iter().all(Result::is_ok), "{listeners:?}");
    Ok(())
}

async fn a_killed_connection_is_told_and_hears_again(cx: &Context) -> CaseResult {
    let store = notifying_store(cx, Notifications::Changes).await?;
    let notifier = notifier(cx, &store)?;
    let mut listeners = Vec::new();
    for how in ENDS {
        listeners.push(listen(&notifier, &cx.key(how)).await?);
    }
    for listener in &mut listeners {
        drained(listener).await;
    }
    assert_eq!(connections(cx, "kill").await?, 1);
    for listener in &mut listeners {
        returned(listener).await?;
    }
    for (how, listener) in ENDS.iter().zip(&mut listeners) {
        // Hints may come twice; from here on, a notification is the end of the claim.
        drained(listener).await;
        end(&store, cx, how).await?;
        returned(listener).await?;
    }
    Ok(())
}

/// Returns the notifications that arrive while `ends` runs. They come in the order of the commits,
/// so the mark comes last.
async fn notified<F: Future<Output = CaseResult> + Send>(
    cx: &Context,
    store: &PostgresStore,
    ends: F,
) -> CaseResult<Vec<String>> {
    let url = idem_servers::url_for("postgres").ok_or_else(|| CaseError::new("no server"))?;
    let mut listener = PgListener::connect(&url).await?;
    let notifier = notifier(cx, store)?;
    listener.listen(notifier.channel()).await?;
    ends.await?;
    let mut connection = PgConnection::connect_with(&direct()?.options()?).await?;
    let notify = sqlx::query("SELECT pg_notify($1, 'mark')").bind(notifier.channel());
    notify.persistent(false).execute(&mut connection).await?;
    connection.close().await?;
    let mut payloads = Vec::new();
    loop {
        let returned = tokio::time::timeout(DEADLINE, listener.recv()).await??;
        if returned.payload() == "mark" {
            return Ok(payloads);
        }
        payloads.push(returned.payload().to_owned());
    }
}

async fn what_changes_nothing_tells_nothing(cx: &Context) -> CaseResult {
    let all = async |store: &PostgresStore| {
        for how in ENDS {
            end(store, cx, how).await?;
        }
        let stale = cx
            .request(&cx.key("swept"))
            .with_on_stale(StalePolicy::Fail);
        let claim = cx.stale_claim(&stale).await?;
        assert_eq!(store.fail_abandoned(10).await?, 1);
        store
            .complete(&claim, &Response::new(200, "late"), HOUR)
            .await
            .unwrap_err();
        store.release(&claim).await.unwrap_err();
        CaseResult::Ok(())
    };
    let silent = notifying_store(cx, Notifications::Off).await?;
    let nothing = notified(cx, &silent, all(&silent)).await?;
    assert_eq!(nothing, Vec::<String>::new());
    let sql = format!("TRUNCATE \"{}\".idem_records", cx.namespace());
    support::harness(cx)?.execute(sql).await?;
    let store = notifying_store(cx, Notifications::Changes).await?;
    let each: Vec<_> = ENDS.map(|how| cx.key(how).hashed()).into();
    assert_eq!(notified(cx, &store, all(&store)).await?, each);
    Ok(())
}

async fn a_transaction_tells_when_it_commits(cx: &Context) -> CaseResult {
    let store = notifying_store(cx, Notifications::Changes).await?;
    let request = cx.request(&cx.key("one"));
    let both = async {
        for commits in [false, true] {
            let mut transaction = store.pool().begin().await?;
            let claim = store.claim_in(&mut transaction, &request).await?;
            let claim = claim.acquired().expect("fresh");
            let response = Response::new(200, "done");
            store
                .complete_in(&mut transaction, &claim, &response, HOUR)
                .await?;
            match commits {
                true => transaction.commit().await?,
                false => transaction.rollback().await?,
            }
        }
        Ok(())
    };
    assert_eq!(
        Box::pin(notified(cx, &store, both)).await?,
        [request.key().hashed()]
    );
    Ok(())
}

async fn a_connection_that_nobody_needs_is_closed(cx: &Context) -> CaseResult {
    let store = notifying_store(cx, Notifications::Changes).await?;
    let notifier = notifier(cx, &store)?.with_idle(Duration::from_millis(20));
    assert_eq!(connections(cx, "count").await?, 0, "before anybody waits");
    for _ in 0..3 {
        let one = listen(&notifier, &cx.key("one")).await?;
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(connections(cx, "count").await?, 1, "while a caller waits");
        drop(one);
        until_connections(cx, 0).await?;
    }
    let kept = notifier.clone().with_idle(HOUR);
    let one = listen(&kept, &cx.key("one")).await?;
    until_connections(cx, 1).await?;
    drop(kept);
    until_connections(cx, 0).await?;
    drop(one);
    Ok(())
}

async fn without_a_connection_those_who_wait_poll(cx: &Context) -> CaseResult {
    let store = notifying_store(cx, Notifications::Changes).await?;
    let nowhere = direct()?.options()?.host("127.0.0.1").port(1);
    let notifier = store.notifier_through(nowhere);
    let request = cx.request(&cx.key("one"));
    let error = notifier.listen(request.key()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let claim = cx.claim(&request).await?;
    let policy = Policy::default().with_on_busy(BusyPolicy::wait(DEADLINE));
    let idem = Idempotency::new(store.clone())
        .with_notifier(notifier)
        .with_policy(policy);
    let key = request.key();
    let waits = idem.run_with(key, *request.fingerprint(), async |_| {
        Err::<u32, _>("it runs twice")
    });
    let response = Response::json(&42)?;
    let completes = store.complete(&claim, &response, HOUR);
    let (outcome, completed) = tokio::join!(waits, completes);
    completed?;
    assert_eq!(outcome.expect("a replay").into_replayed(), Some(42));
    Ok(())
}
