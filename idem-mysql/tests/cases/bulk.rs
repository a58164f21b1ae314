//! Batches, `delete_expired` and `fail_abandoned`, and the connections that they leave behind.

use std::time::Duration;

use idem_conformance::proxy::Proxy;
use idem_conformance::{Case, CaseResult, Context};
use idem_core::{
    AttemptId, BatchStore, Claim, ClaimOutcome, Effect, Error, ErrorKind, FencingToken, Finish,
    IdempotencyStore, IdempotencyStoreExt, Record, Response,
};
use idem_stores::Adapter;
use sqlx::mysql::MySqlPoolOptions;
use sqlx::{AssertSqlSafe, Executor};

use super::case;
use super::waits::{HOUR, RETRY_TIMEOUT};
use crate::support::{self, MySqlHarness};

pub(super) const A_BATCH_CUT_OFF_IS_NOT_REPORTED_AS_UNDONE: Case =
    case(14, "a_batch_cut_off_is_not_reported_as_undone", |cx| {
        Box::pin(a_batch_cut_off_is_not_reported_as_undone(cx))
    });
pub(super) const ENDS_CUT_OFF_ARE_NOT_REPORTED_AS_UNDONE: Case =
    case(14, "ends_cut_off_are_not_reported_as_undone", |cx| {
        Box::pin(ends_cut_off_are_not_reported_as_undone(cx))
    });
pub(super) const A_BATCH_OF_LARGE_RESULTS_IS_KEPT_TO_THE_BYTE: Case =
    case(3, "a_batch_of_large_results_is_kept_to_the_byte", |cx| {
        Box::pin(a_batch_of_large_results_is_kept_to_the_byte(cx))
    });
pub(super) const THE_SAME_BATCH_STARTS_ITS_LEASES_ANEW: Case =
    case(6, "the_same_batch_starts_its_leases_anew", |cx| {
        Box::pin(the_same_batch_starts_its_leases_anew(cx))
    });
pub(super) const A_TOKEN_THAT_IS_KEPT_HOLDS_UP_NO_PURGE: Case =
    case(16, "a_token_that_is_kept_holds_up_no_purge", |cx| {
        Box::pin(a_token_that_is_kept_holds_up_no_purge(cx))
    });
pub(super) const A_PURGE_THAT_IS_REFUSED_LEAVES_NO_TRANSACTION_OPEN: Case = case(
    14,
    "a_purge_that_is_refused_leaves_no_transaction_open",
    |cx| Box::pin(a_purge_that_is_refused_leaves_no_transaction_open(cx)),
);
pub(super) const A_BATCH_COMPLETES_ONLY_WHAT_IS_HELD: Case =
    case(5, "a_batch_completes_only_what_is_held", |cx| {
        Box::pin(a_batch_completes_only_what_is_held(cx))
    });
pub(super) const A_BATCH_BESIDE_A_TRANSACTION_KEEPS_NO_LOCK: Case =
    case(16, "a_batch_beside_a_transaction_keeps_no_lock", |cx| {
        Box::pin(a_batch_beside_a_transaction_keeps_no_lock(cx))
    });
pub(super) const A_PURGE_THAT_FAILS_HALF_WAY_IS_NOT_REPORTED_AS_UNDONE: Case = case(
    14,
    "a_purge_that_fails_half_way_is_not_reported_as_undone",
    |cx| Box::pin(a_purge_that_fails_half_way_is_not_reported_as_undone(cx)),
);

/// The connection is cut after each message in turn, until a batch needs no more messages.
async fn a_batch_cut_off_is_not_reported_as_undone(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let server = harness.address().expect("a server");
    let proxy = Proxy::start(server).await?;
    let options = harness
        .options()?
        .host("127.0.0.1")
        .port(proxy.address().port());
    for messages in 0..40 {
        let pool = MySqlPoolOptions::new().max_connections(1);
        let store = harness
            .store_with(pool, options.clone(), cx.namespace())
            .await?;
        let warm = ["warm", "up"].map(|id| cx.request(&cx.key(format!("{id} {messages}"))));
        store.claim_many(&warm).await;
        let keys = ["a", "b"].map(|id| cx.key(format!("{id} {messages}")));
        let requests = keys.each_ref().map(|key| cx.request(key));
        let before = proxy.cuts();
        proxy.cut_after(messages);
        let answers = store.claim_many(&requests).await;
        proxy.disarm();
        for (key, answer) in keys.iter().zip(&answers) {
            let undone = answer
                .as_ref()
                .is_err_and(|error| error.effect() == Effect::None);
            assert!(
                !undone || cx.store().get(key).await?.is_none(),
                "{answer:?}"
            );
        }
        if proxy.cuts() == before {
            assert!(answers.iter().all(Result::is_ok), "{answers:?}");
            return Ok(());
        }
    }
    panic!("a batch takes more than forty messages");
}

/// One claim of the batch is lost, so the others are sent again by themselves. The server cannot be
/// reached any more after each message in turn, until a batch needs no more messages.
async fn ends_cut_off_are_not_reported_as_undone(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let server = harness.address().expect("a server");
    for messages in 0..40 {
        let proxy = Proxy::start(server).await?;
        let options = harness.options()?.host("127.0.0.1");
        let pool = MySqlPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(Duration::from_millis(300));
        let options = options.port(proxy.address().port());
        let store = harness.store_with(pool, options, cx.namespace()).await?;
        let mut ends = Vec::new();
        for id in ["lost", "a", "b", "c"] {
            let claim = cx.key(format!("{id} {messages}"));
            let claim = cx.claim(&cx.request(&claim)).await?;
            if id == "lost" {
                cx.store().release(&claim).await?;
            }
            ends.push(Finish::Complete {
                claim,
                response: Response::new(200, "done"),
                retention: HOUR,
            });
        }
        proxy.close_after(messages);
        let answers = store.finish_many(&ends).await;
        let mut is_undone = Vec::new();
        for (end, answer) in ends.iter().zip(&answers).skip(1) {
            let record = cx.store().get(end.claim().key()).await?;
            is_undone.push(!matches!(record, Some(Record::Completed(_))));
            let is_told = answer
                .as_ref()
                .is_err_and(|error| error.effect() == Effect::None);
            assert!(!is_told || is_undone.ends_with(&[true]), "{answer:?}");
        }
        if proxy.cuts() == 0 {
            // What the record shows is certain.
            let is_lost = |error: &Error| error.is_claim_lost() && error.effect() == Effect::None;
            assert!(answers[0].as_ref().is_err_and(is_lost), "{answers:?}");
            assert!(answers[1..].iter().all(Result::is_ok), "{answers:?}");
            assert!(!is_undone.contains(&true));
            return Ok(());
        }
    }
    panic!("a batch takes more than forty messages");
}

/// Results of every size, together larger than a packet of MariaDB (16 MiB), even where the server
/// would cut off values that are too long for a column.
async fn a_batch_of_large_results_is_kept_to_the_byte(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    for mode in ["", "STRICT_TRANS_TABLES"] {
        let pool = MySqlPoolOptions::new().after_connect(move |connection, _| {
            Box::pin(async move {
                let set = format!("SET SESSION sql_mode = '{mode}'");
                connection.execute(AssertSqlSafe(set)).await.map(drop)
            })
        });
        let store = harness
            .store_with(pool, harness.options()?, cx.namespace())
            .await?;
        let mut completions = Vec::new();
        for number in 0..54 {
            let size = [9, 70_000, (1 << 20) - 1000][number % 3];
            completions.push(Finish::Complete {
                claim: cx
                    .claim(&cx.request(&cx.key(format!("{mode}{number}"))))
                    .await?,
                response: Response::new(200, vec![b'x'; size]),
                retention: HOUR,
            });
        }
        for answer in store.finish_many(&completions).await {
            answer?;
        }
        for done in &completions {
            let Some(Record::Completed(record)) = store.get(done.claim().key()).await? else {
                panic!("not completed");
            };
            let is_same =
                matches!(done, Finish::Complete { response, .. } if *response == record.response);
            assert!(is_same, "another body");
        }
    }
    Ok(())
}

async fn the_same_batch_starts_its_leases_anew(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    let requests = ["a", "b"].map(|id| cx.request(&cx.key(id)));
    let mut ends = Vec::new();
    for _ in 0..2 {
        for answer in store.claim_many(&requests).await {
            match answer? {
                ClaimOutcome::Acquired(claim) => ends.push(claim.lease_ends_at()),
                other => panic!("{}", other.name()),
            }
        }
    }
    assert!(ends[2] > ends[0] && ends[3] > ends[1], "{ends:?}");
    Ok(())
}

async fn a_token_that_is_kept_holds_up_no_purge(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    for id in ["ahead", "behind"] {
        let claim = cx.claim(&cx.request(&cx.key(id))).await?;
        cx.store().release(&claim).await?;
    }
    let (database, hour) = (cx.namespace(), 3_600_000_000_i64);
    harness
        .execute(format!(
            "UPDATE `{database}`.idem_records SET token = token + {hour}, purge_at = 0 WHERE id = 'ahead'"
        ))
        .await?;
    assert_eq!(cx.store().delete_expired(1).await?, 1, "the one behind it");
    Ok(())
}

/// An earlier token of the same attempt, the token with another attempt, and an expired record:
/// each claim is lost.
async fn a_batch_completes_only_what_is_held(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    let [held, expired] = ["held", "expired"].map(|id| cx.request(&cx.key(id)));
    let expired = expired.with_lease(cx.short()).with_retention(cx.short());
    let (held, expired) = (cx.claim(&held).await?, cx.claim(&expired).await?);
    cx.until_free(expired.key()).await?;
    let earlier = FencingToken::from_i64(held.token().as_i64() - 1);
    let forged = |token, attempt| {
        let until = held.lease_ends_at();
        Claim::new(held.key().clone(), token, attempt, 1, until, until)
    };
    for claim in [
        forged(earlier, held.attempt()),
        forged(held.token(), AttemptId::random()),
        expired,
    ] {
        let completion = Finish::Complete {
            claim,
            response: Response::new(200, "lost"),
            retention: HOUR,
        };
        let answers = store.finish_many(&[completion]).await;
        assert!(
            answers
                .iter()
                .all(|answer| { answer.as_ref().is_err_and(Error::is_claim_lost) })
        );
    }
    let response = Response::new(200, "done");
    Ok(store.complete(&held, &response, HOUR).await?)
}

/// In any order of its keys, a batch that waits for its first key holds no later one.
async fn a_batch_beside_a_transaction_keeps_no_lock(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    let [one, two] = ["one", "two"].map(|id| cx.key(id));
    let mut other = store.pool().begin().await?;
    let first = store.claim_in(&mut other, &cx.request(&one)).await?;
    let requests = [cx.request(&two), cx.request(&one)];
    let answers = store.claim_many(&requests).await;
    let [free, locked] = &answers[..] else {
        return Err("not an answer for each".into());
    };
    assert!(matches!(free, Ok(ClaimOutcome::Acquired(_))), "{free:?}");
    let error = locked.as_ref().expect_err("a transaction holds it");
    assert_eq!(error.kind(), ErrorKind::Contention);
    let second = store.claim_in(&mut other, &cx.request(&two)).await?;
    assert_eq!((first.name(), second.name()), ("acquired", "in_flight"));
    other.commit().await?;
    let returned = store.claim_retrying(&requests[1], RETRY_TIMEOUT).await?;
    assert_eq!(returned.name(), "in_flight");
    assert_eq!(store.contention().deadlocks, 0);
    Ok(())
}

/// A user that may lock rows but not delete them: the transaction fails between its two statements.
/// Left open, it would swallow the later writes of the one connection.
async fn a_purge_that_is_refused_leaves_no_transaction_open(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    // Names of users have at most 32 characters.
    let user = &cx.namespace()[..30];
    let grants = [("SELECT, INSERT, UPDATE", "idem_records")];
    harness.create_user(cx, user, &grants).await?;
    let worked = without_delete(cx, &harness, user).await;
    harness.execute(format!("DROP USER '{user}'@'%'")).await?;
    worked
}

async fn without_delete(cx: &Context, harness: &MySqlHarness, user: &str) -> CaseResult {
    let options = harness.options()?.username(user).password("secret");
    let options = options.database(cx.namespace());
    let pool = MySqlPoolOptions::new().max_connections(1);
    let store = harness.store_with(pool, options, cx.namespace()).await?;
    let claim = cx.claim(&cx.request(&cx.key("free"))).await?;
    cx.store().release(&claim).await?;
    let error = store.delete_expired(10).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    let fresh = store.claim(&cx.request(&cx.key("fresh"))).await?;
    assert_eq!(fresh.name(), "acquired");
    assert!(cx.store().get(&cx.key("fresh")).await?.is_some());
    assert_eq!(
        cx.store().delete_expired(10).await?,
        1,
        "no transaction has locked it"
    );
    store.pool().close().await;
    Ok(())
}

/// The second transaction of the deletion fails with an error that by itself has no effect.
async fn a_purge_that_fails_half_way_is_not_reported_as_undone(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let requests: Vec<_> = (0..600)
        .map(|number| cx.request(&cx.key(format!("key-{number}"))))
        .collect();
    for answer in cx.open_batch().await?.claim_many(&requests).await {
        let _claimed = answer?;
    }
    let table = format!("`{}`.idem_records", cx.namespace());
    for sql in [
        format!("UPDATE {table} SET state = 3, expires_at = 0, purge_at = 1"),
        format!("UPDATE {table} SET purge_at = 2 WHERE id = 'key-7'"),
        format!(
            "CREATE TRIGGER `{}`.refuse BEFORE DELETE ON {table} FOR EACH ROW BEGIN
                IF OLD.id = 'key-7' THEN
                    SIGNAL SQLSTATE '42000' SET MYSQL_ERRNO = 1142, MESSAGE_TEXT = 'refused';
                END IF;
            END",
            cx.namespace()
        ),
    ] {
        harness.execute(sql).await?;
    }
    let error = cx.store().delete_expired(1000).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    assert_eq!(error.effect(), Effect::Unknown, "the first is committed");
    let error = cx.store().delete_expired(1000).await.unwrap_err();
    assert_eq!(error.effect(), Effect::None, "nothing was");
    Ok(())
}
