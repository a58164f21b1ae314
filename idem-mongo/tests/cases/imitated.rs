//! Servers that behave otherwise than the one that runs.

use std::sync::Arc;
use std::time::Duration;

use idem_conformance::proxy::Proxy;
use idem_conformance::{Case, CaseError, CaseResult, Context, Harness, cases};
use idem_core::{
    Advance, AttemptId, BatchStore, Checkpoint, CheckpointStore, ClaimRequest, Effect, Error,
    ErrorKind, Failure, IdempotencyStore, Response, WatermarkStore,
};
use idem_mongo::Transactions;
use idem_stores::{Adapter, Suite};
use tokio::time::{Instant, sleep, timeout};

use super::{case, reads};
use crate::support::{self, Imitated, documents};

pub(super) const THE_LAWS_HOLD_WHERE_NO_TIME_ENDS_AN_UPSERT: Case =
    case(1, "the_laws_hold_where_no_time_ends_an_upsert", |cx| {
        Box::pin(the_laws_hold_where_no_time_ends_an_upsert(cx))
    });
pub(super) const A_CLAIM_THAT_THE_SERVER_DOES_LATE_IS_TAKEN_BACK: Case = case(
    16,
    "a_claim_that_the_server_does_late_is_taken_back",
    |cx| Box::pin(a_claim_that_the_server_does_late_is_taken_back(cx)),
);
pub(super) const AN_ADVANCE_BESIDE_THE_FIRST_ONE_IN_A_TRANSACTION_IS_ANSWERED: Case = case(
    16,
    "an_advance_beside_the_first_one_in_a_transaction_is_answered",
    |cx| Box::pin(an_advance_beside_the_first_one_in_a_transaction_is_answered(cx)),
);
pub(super) const THE_LAWS_HOLD_WHERE_MEMBERS_CONFIRM_SLOWLY: Case =
    case(1, "the_laws_hold_where_members_confirm_slowly", |cx| {
        Box::pin(the_laws_hold_where_members_confirm_slowly(cx))
    });

pub(super) const A_STEP_WITHOUT_AN_ANSWER_IS_SENT_AGAIN: Case =
    case(6, "a_step_without_an_answer_is_sent_again", |cx| {
        Box::pin(a_step_without_an_answer_is_sent_again(cx))
    });

const HOUR: Duration = Duration::from_secs(3600);

/// How long an answer may take beside an open transaction.
const OPEN: Duration = Duration::from_secs(5);

/// Runs cases of the suite, and `own` ones, on the imitated server. Calls of this case's own store
/// show meanwhile that it does not stand still.
async fn hold(cx: &Context, imitated: Imitated, names: &[&str], own: &[Case]) -> CaseResult {
    let adapter = support::imitated(imitated).await?;
    let mut profile = support::target()
        .map_err(|missing| CaseError::new(missing.to_string()))?
        .profile();
    if let Imitated::SlowMembers(confirmed) = imitated {
        profile = profile.with_shortest_lease(confirmed * 5);
    }
    let suite = Arc::new(Suite::new("imitated", adapter, profile));
    let named: Vec<_> = cases().filter(|case| names.contains(&case.name)).collect();
    assert_eq!(named.len(), names.len(), "cases of these names");
    for case in named.into_iter().chain(own) {
        let inner = Context::new(Arc::clone(&suite) as Arc<dyn Harness>, 1).await?;
        let calls = async {
            loop {
                cx.store().get(&cx.key("alive")).await?;
                sleep(Duration::from_secs(1)).await;
            }
        };
        let held = tokio::select! {
            held = (case.run)(&inner) => held,
            failed = calls => failed,
        };
        inner.destroy().await?;
        held.map_err(|error| error.while_doing(case.name))?;
    }
    Ok(())
}

async fn the_laws_hold_where_no_time_ends_an_upsert(cx: &Context) -> CaseResult {
    let names = [
        "beside_an_open_transaction_there_is_no_second_winner",
        "a_claim_that_was_rolled_back_leaves_the_key_to_one_winner",
        "a_step_beside_the_claims_own_open_transaction_is_not_lost",
        "a_batch_with_a_locked_key_answers_the_others",
    ];
    hold(cx, Imitated::EndlessUpserts, &names, &[]).await
}

async fn the_laws_hold_where_members_confirm_slowly(cx: &Context) -> CaseResult {
    let names = [
        "the_same_attempt_gets_its_own_claim_back",
        "an_expired_record_conflicts_with_nobody",
        "the_token_grows_with_expiry",
        "a_completed_key_is_fresh_after_its_retention",
    ];
    let slow = Imitated::SlowMembers(Duration::from_millis(150));
    hold(cx, slow, &names, &[reads::OF_A_STORM_ONE_WRITE_IS_LOGGED]).await
}

fn rival(request: &ClaimRequest) -> ClaimRequest {
    request.clone().with_attempt(AttemptId::random())
}

#[track_caller]
fn contended<T: std::fmt::Debug>(answer: Result<T, Error>, effect: Effect) {
    let error = answer.unwrap_err();
    let returned = (error.kind(), error.effect());
    assert_eq!(returned, (ErrorKind::Contention, effect), "{error}");
}

/// Alone and in a batch. The batch has a key after the locked one that is released meanwhile: the
/// command comes to it late, too.
async fn a_claim_that_the_server_does_late_is_taken_back(cx: &Context) -> CaseResult {
    let adapter = support::imitated(Imitated::EndlessUpserts).await?;
    let store = adapter.store(cx.namespace()).await?;
    let request = |id: &str| cx.request(&cx.key(id));
    let [alone, batched] = ["alone", "batched"].map(request);
    let mut session = Transactions::new(&store).attempts().begin().await?;
    for locked in [&alone, &batched] {
        let claimed = store.claim_in(&mut session, locked).await?;
        assert!(claimed.acquired().is_some(), "a fresh key");
    }
    let returned = timeout(OPEN, store.claim(&rival(&alone))).await?;
    contended(returned, Effect::Unknown);
    let batch = [
        request("before"),
        rival(&batched),
        request("kept"),
        request("released"),
    ];
    let mut returned = timeout(OPEN, store.claim_many(&batch)).await?;
    contended(returned.remove(1), Effect::Unknown);
    let mut claims = Vec::new();
    for outcome in returned {
        claims.push(outcome?.acquired().expect("not locked"));
    }
    store.release(&claims[2]).await?;
    session.abort_transaction().await?;
    // A release leaves the document, without a live record.
    let is_free = |id: &str, earlier: i64| {
        let path = cx.key(id).path();
        async move {
            let found = documents(cx).await?;
            let of = found
                .iter()
                .find(|found| found.get_str("_id").ok() == Some(&path));
            let field = |name| of.and_then(|found| found.get_i64(name).ok());
            let is_later = field("token").is_some_and(|token| token > earlier);
            CaseResult::Ok(is_later && field("expires_at") == Some(0))
        }
    };
    let deadline = Instant::now() + cx.profile().max_wait();
    let released = claims[2].token().as_i64();
    for (id, earlier) in [("alone", 0), ("batched", 0), ("released", released)] {
        while !is_free(id, earlier).await? {
            assert!(Instant::now() < deadline, "{id} was not taken back");
            sleep(Duration::from_millis(10)).await;
        }
    }
    for claim in &claims[..2] {
        store
            .complete(claim, &Response::new(200, "x"), HOUR)
            .await?;
    }
    Ok(())
}

async fn an_advance_beside_the_first_one_in_a_transaction_is_answered(cx: &Context) -> CaseResult {
    let adapter = support::imitated(Imitated::EndlessUpserts).await?;
    let store = adapter.store(cx.namespace()).await?;
    let source = cx.key("one");
    let mut session = Transactions::new(&store).attempts().begin().await?;
    store.advance_in(&mut session, &source, 7, HOUR).await?;
    let returned = timeout(OPEN, store.advance(&source, 7, HOUR)).await?;
    contended(returned, Effect::None);
    session.abort_transaction().await?;
    let deadline = Instant::now() + cx.profile().max_wait();
    loop {
        match store.advance(&source, 7, HOUR).await {
            Ok(advanced) => assert_eq!(advanced, Advance::Advanced),
            Err(error) if error.kind() == ErrorKind::Contention => {
                assert!(Instant::now() < deadline, "{error}");
                sleep(Duration::from_millis(10)).await;
                continue;
            }
            Err(error) => return Err(error.into()),
        }
        return Ok(());
    }
}

/// The driver does not repeat an `update` with a time limit.
async fn a_step_without_an_answer_is_sent_again(cx: &Context) -> CaseResult {
    let harness = support::harness()?;
    let server = harness.address().ok_or("the URL has no address")?;
    let proxy = Proxy::start(server).await?;
    let through = harness.through(proxy.address()).ok_or("no proxy")?;
    let store = through.store(cx.namespace()).await?;
    for step in ["checkpoint", "complete", "fail", "release"] {
        let claim = store.claim(&cx.request(&cx.key(step))).await?;
        let claim = claim.acquired().expect("fresh");
        proxy.quiet().await;
        proxy.cut_after(0);
        let done = match step {
            "checkpoint" => store.checkpoint(&claim, &Checkpoint::new("a", "b")?).await,
            "complete" => store.complete(&claim, &Response::new(200, "x"), HOUR).await,
            "fail" => store.fail(&claim, &Failure::new("no", "no"), HOUR).await,
            _ => store.release(&claim).await,
        };
        proxy.disarm();
        done.map_err(|error| CaseError::from(error).while_doing(step))?;
    }
    assert!(proxy.cuts() >= 4, "{} answers were lost", proxy.cuts());
    Ok(())
}
