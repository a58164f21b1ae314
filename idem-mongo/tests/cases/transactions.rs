//! The record and the caller's documents commit together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use idem_conformance::cancel::polled;
use idem_conformance::{Case, CaseResult, Context};
use idem_core::engine::Tx;
use idem_core::{
    BoxError, ClaimOutcome, ClaimRequest, ErrorKind, Idempotency, IdempotencyStore, Key, Record,
    Response, RunError, Work,
};
use idem_mongo::mongodb::bson::{Document, doc};
use idem_mongo::mongodb::options::ReturnDocument;
use idem_mongo::mongodb::{ClientSession, Collection};
use idem_mongo::{MongoStore, Transactions, is_transaction_retryable};

use super::case;
use crate::support;

pub(super) const RECORD_AND_BUSINESS_DOCUMENT_COMMIT_TOGETHER: Case =
    case(12, "record_and_business_document_commit_together", |cx| {
        Box::pin(record_and_business_document_commit_together(cx))
    });
pub(super) const A_RUN_COMMITS_DOCUMENT_AND_RECORD: Case =
    case(12, "a_run_commits_document_and_record", |cx| {
        Box::pin(a_run_commits_document_and_record(cx))
    });
pub(super) const AN_ABORT_LEAVES_NEITHER: Case = case(12, "an_abort_leaves_neither", |cx| {
    Box::pin(an_abort_leaves_neither(cx))
});
pub(super) const TRANSACTIONS_ARE_REPEATED_AS_A_WHOLE: Case =
    case(1, "transactions_are_repeated_as_a_whole", |cx| {
        Box::pin(transactions_are_repeated_as_a_whole(cx))
    });
pub(super) const A_LOST_CLAIM_ABORTS_THE_BUSINESS_DOCUMENT: Case =
    case(5, "a_lost_claim_aborts_the_business_document", |cx| {
        Box::pin(a_lost_claim_aborts_the_business_document(cx))
    });
pub(super) const LEASES_END_DURING_A_LONG_TRANSACTION: Case =
    case(9, "leases_end_during_a_long_transaction", |cx| {
        Box::pin(leases_end_during_a_long_transaction(cx))
    });
pub(super) const A_CLAIM_BESIDE_A_TRANSACTION_HAS_ONE_WINNER: Case =
    case(1, "a_claim_beside_a_transaction_has_one_winner", |cx| {
        Box::pin(a_claim_beside_a_transaction_has_one_winner(cx))
    });
pub(super) const A_DUPLICATE_BESIDE_A_TRANSACTION_OF_ANOTHER_PROCESS_IS_TOLD_NOTHING_ELSE: Case =
    case(
        1,
        "a_duplicate_beside_a_transaction_of_another_process_is_told_nothing_else",
        |cx| Box::pin(a_duplicate_beside_a_transaction_of_another_process_is_told_nothing_else(cx)),
    );
pub(super) const A_LOST_RACE_IN_A_TRANSACTION_IS_CONTENTION: Case =
    case(14, "a_lost_race_in_a_transaction_is_contention", |cx| {
        Box::pin(a_lost_race_in_a_transaction_is_contention(cx))
    });
pub(super) const A_TRANSACTION_DROPPED_AT_ANY_POLL_IS_NOT_LEFT_OPEN: Case = case(
    13,
    "a_transaction_dropped_at_any_poll_is_not_left_open",
    |cx| Box::pin(a_transaction_dropped_at_any_poll_is_not_left_open(cx)),
);

const HOUR: Duration = Duration::from_secs(3600);

/// A store, payments without any index that would hide a second one, and their running total.
struct Shop {
    store: MongoStore,
    transactions: Transactions,
    payments: Collection<Document>,
    totals: Collection<Document>,
}

impl Shop {
    async fn open(cx: &Context) -> CaseResult<Self> {
        let store = support::harness()?.store(cx.namespace()).await?;
        let database = store.client().database(cx.namespace());
        for name in ["payments", "totals"] {
            // Another caller of this case may have created it.
            let _ = database.create_collection(name).await;
        }
        Ok(Self {
            transactions: Transactions::new(&store),
            payments: database.collection("payments"),
            totals: database.collection("totals"),
            store,
        })
    }

    async fn pay(&self, session: &mut ClientSession, key: &str) -> Result<(), BoxError> {
        let total = self
            .totals
            .find_one_and_update(doc! { "_id": "all" }, doc! { "$inc": { "total": 1_i64 } })
            .upsert(true)
            .return_document(ReturnDocument::After)
            .session(&mut *session)
            .await?;
        let total = total.ok_or("no total")?.get_i64("total")?;
        let payment = doc! { "key": key, "total": total };
        self.payments.insert_one(payment).session(session).await?;
        Ok(())
    }

    /// Returns the number of payments, and the total.
    async fn paid(&self) -> CaseResult<(u64, i64)> {
        let total = self.totals.find_one(doc! { "_id": "all" }).await?;
        let total = total.map_or(Ok(0), |total| total.get_i64("total"))?;
        Ok((self.payments.count_documents(doc! {}).await?, total))
    }

    /// Claims, pays and completes in one transaction; pays nothing for a duplicate.
    async fn pay_once(&self, request: &ClaimRequest) -> Result<ClaimOutcome, BoxError> {
        let mut attempts = self.transactions.attempts();
        loop {
            let mut session = attempts.begin().await?;
            let result = self.claim_and_pay(&mut session, request).await;
            if let Some(result) = attempts.finish(session, result).await {
                return result;
            }
        }
    }

    async fn claim_and_pay(
        &self,
        session: &mut ClientSession,
        request: &ClaimRequest,
    ) -> Result<ClaimOutcome, BoxError> {
        let outcome = self.store.claim_in(session, request).await?;
        if let ClaimOutcome::Acquired(claim) = &outcome {
            self.pay(session, request.key().id()).await?;
            let response = Response::new(201, "paid");
            self.store
                .complete_in(session, claim, &response, HOUR)
                .await?;
        }
        Ok(outcome)
    }
}

async fn record_and_business_document_commit_together(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx).await?;
    let request = cx.request(&cx.key("one"));
    let first = shop.pay_once(&request).await?;
    assert!(matches!(first, ClaimOutcome::Acquired(_)));
    let again = shop.pay_once(&cx.request(request.key())).await?;
    assert!(matches!(again, ClaimOutcome::Completed(_)));
    assert_eq!(shop.paid().await?, (1, 1));
    let record = cx.store().get(request.key()).await?;
    assert!(matches!(record, Some(Record::Completed(_))));
    Ok(())
}

/// The engine runs the transaction. A work that aborts it is not sealed, and leaves nothing.
async fn a_run_commits_document_and_record(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx).await?;
    let engine = Idempotency::new(shop.store.clone());
    let run = async |key: &Key, aborts: bool| {
        let pay = async |mut tx: Tx<ClientSession>, _: Work| {
            shop.pay(&mut tx, key.id()).await?;
            if aborts {
                tx.abort_transaction().await?;
            }
            Ok::<_, BoxError>("paid".to_owned())
        };
        Box::pin(engine.run_in(&shop.transactions, key, &1, pay)).await
    };
    let (one, other) = (cx.key("one"), cx.key("other"));
    for is_replayed in [false, true] {
        let ran = run(&one, false).await.map_err(|error| error.to_string());
        assert_eq!(ran?.is_replayed(), is_replayed);
        assert_eq!(shop.paid().await?, (1, 1));
    }
    match run(&other, true).await {
        Err(RunError::Work(error)) => {
            let kind = error.downcast_ref().map(idem_core::Error::kind);
            assert_eq!(kind, Some(ErrorKind::Misconfigured), "{error:?}");
        }
        ran => return Err(idem_conformance::CaseError::new(format!("sealed: {ran:?}"))),
    }
    assert_eq!(cx.store().get(&other).await?, None);
    let again = run(&other, false).await.map_err(|error| error.to_string());
    assert!(!again?.is_replayed());
    assert_eq!(shop.paid().await?, (2, 2));
    Ok(())
}

async fn an_abort_leaves_neither(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx).await?;
    let request = cx.request(&cx.key("one"));
    let mut attempts = shop.transactions.attempts();
    let mut session = attempts.begin().await?;
    let outcome = shop.claim_and_pay(&mut session, &request).await?;
    assert!(matches!(outcome, ClaimOutcome::Acquired(_)));
    let declined = Err::<(), _>("the card was declined");
    let error = attempts.finish(session, declined).await;
    let error = error.expect("not to be repeated").unwrap_err();
    assert_eq!(error.to_string(), "the card was declined");
    assert_eq!(shop.paid().await?, (0, 0));
    assert_eq!(cx.store().get(request.key()).await?, None);
    let other = shop.pay_once(&cx.other_request(request.key())).await?;
    assert!(matches!(other, ClaimOutcome::Acquired(_)));
    Ok(())
}

/// All transactions change the one total, so most of them fail at first.
async fn transactions_are_repeated_as_a_whole(cx: &Context) -> CaseResult {
    const KEYS: u32 = 12;
    let mut shop = Shop::open(cx).await?;
    shop.transactions = shop.transactions.with_limit(Duration::from_secs(60));
    let (shop, acquired) = (Arc::new(shop), Arc::new(AtomicU32::new(0)));
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..KEYS * 3 {
        let (shop, acquired) = (Arc::clone(&shop), Arc::clone(&acquired));
        let request = cx.request(&cx.key(format!("key-{}", number % KEYS)));
        tasks.spawn(async move {
            if let ClaimOutcome::Acquired(_) = shop.pay_once(&request).await? {
                acquired.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<_, BoxError>(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    assert_eq!(acquired.load(Ordering::Relaxed), KEYS);
    assert_eq!(shop.paid().await?, (KEYS.into(), KEYS.into()));
    Ok(())
}

async fn a_lost_claim_aborts_the_business_document(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx).await?;
    let key = cx.key("one");
    let lost = cx.stale_claim(&cx.request(&key)).await?;
    cx.hold(&cx.request(&key)).await?;
    let mut attempts = shop.transactions.attempts();
    let mut session = attempts.begin().await?;
    shop.pay(&mut session, "one").await?;
    let response = Response::new(201, "paid");
    let completing = shop.store.complete_in(&mut session, &lost, &response, HOUR);
    let completed = completing.await;
    let is_lost = completed
        .as_ref()
        .is_err_and(idem_core::Error::is_claim_lost);
    assert!(is_lost, "{completed:?}");
    let finished = attempts.finish(session, completed).await;
    assert!(finished.is_some_and(|result| result.is_err()));
    assert_eq!(shop.paid().await?, (0, 0));
    Ok(())
}

/// The snapshot does not change in a transaction; the clock decides about leases.
async fn leases_end_during_a_long_transaction(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx).await?;
    let key = cx.key("one");
    cx.hold(&cx.request(&key).with_lease(cx.short())).await?;
    let mut attempts = shop.transactions.attempts();
    let mut session = attempts.begin().await?;
    shop.pay(&mut session, "one").await?;
    cx.until_stale(&key).await?;
    let outcome = shop.store.claim_in(&mut session, &cx.request(&key)).await?;
    let claim = outcome.acquired().expect("the lease has ended meanwhile");
    assert_eq!(claim.attempts(), 2);
    let finished = attempts.finish(session, Ok::<_, BoxError>(())).await;
    finished.expect("nobody was in the way")?;
    cx.store()
        .complete(&claim, &Response::new(201, "x"), HOUR)
        .await?;
    Ok(())
}

/// A claim outside waits for the end of the transaction, or gets the error of a lost race.
async fn a_claim_beside_a_transaction_has_one_winner(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx).await?;
    for commits in [true, false] {
        let request = cx.request(&cx.key(format!("commits-{commits}")));
        let mut attempts = shop.transactions.attempts();
        let mut session = attempts.begin().await?;
        let inside = shop.claim_and_pay(&mut session, &request).await?;
        assert!(matches!(inside, ClaimOutcome::Acquired(_)));
        let (store, outside) = (shop.store.clone(), cx.request(request.key()));
        let claiming = tokio::spawn(async move {
            loop {
                match store.claim(&outside).await {
                    Err(error) if error.kind() == ErrorKind::Contention => {}
                    outcome => return outcome,
                }
            }
        });
        let result = if commits { Ok(()) } else { Err("declined") };
        let finished = attempts.finish(session, result).await.expect("an end");
        assert_eq!(finished.is_ok(), commits);
        let outcome = claiming.await??;
        match commits {
            true => assert!(matches!(outcome, ClaimOutcome::Completed(_))),
            false => assert!(matches!(outcome, ClaimOutcome::Acquired(_))),
        }
    }
    assert_eq!(shop.paid().await?, (1, 1));
    Ok(())
}

/// The other process knows of no transaction and writes first, because its keys were all fresh.
async fn a_duplicate_beside_a_transaction_of_another_process_is_told_nothing_else(
    cx: &Context,
) -> CaseResult {
    let shop = Shop::open(cx).await?;
    let elsewhere = support::harness()?.store(cx.namespace()).await?;
    for number in 0..20 {
        let fresh = cx.request(&cx.key(format!("fresh-{number}")));
        assert!(elsewhere.claim(&fresh).await?.acquired().is_some());
    }
    for commits in [true, false] {
        let request = cx.request(&cx.key(format!("commits-{commits}")));
        let claim = cx.claim(&request).await?;
        let mut attempts = shop.transactions.attempts();
        let mut session = attempts.begin().await?;
        let paid = Response::new(201, "paid");
        shop.store
            .complete_in(&mut session, &claim, &paid, HOUR)
            .await?;
        let (store, duplicate) = (elsewhere.clone(), cx.request(request.key()));
        let mut claiming = tokio::spawn(async move {
            loop {
                match store.claim(&duplicate).await {
                    Err(error) if error.kind() == ErrorKind::Contention => {}
                    outcome => return outcome,
                }
            }
        });
        // Gives the claim time to meet the transaction, whether it waits for it or not.
        let early = tokio::time::timeout(Duration::from_millis(50), &mut claiming).await;
        let result = if commits { Ok(()) } else { Err("declined") };
        let finished = attempts.finish(session, result).await.expect("an end");
        assert_eq!(finished.is_ok(), commits);
        // Before the end the record is in flight, and after a commit completed.
        let (outcome, may_be_done) = match early {
            Ok(outcome) => (outcome??, false),
            Err(_) => (claiming.await??, commits),
        };
        let done = may_be_done && outcome.name() == "completed";
        assert!(done || outcome.name() == "in_flight", "{outcome:?}");
        let after = elsewhere.claim(&cx.request(request.key())).await?;
        let ended = if commits { "completed" } else { "in_flight" };
        assert_eq!(after.name(), ended);
    }
    Ok(())
}

async fn a_lost_race_in_a_transaction_is_contention(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx).await?;
    let request = cx.request(&cx.key("one"));
    let mut attempts = shop.transactions.attempts();
    let mut session = attempts.begin().await?;
    shop.pay(&mut session, "one").await?;
    cx.hold(&request).await?;
    // The snapshot does not show the record, and the write meets it.
    let rival = cx.request(request.key());
    let error = shop.store.claim_in(&mut session, &rival).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Contention, "{error:?}");
    assert!(is_transaction_retryable(&error));
    assert!(
        !format!("{error} {error:?}").contains("tenant"),
        "{error:?}"
    );
    let again = attempts.finish(session, Err::<(), _>(error)).await;
    assert!(again.is_none(), "to be repeated as a whole");
    let outcome = shop.pay_once(&rival).await?;
    assert!(matches!(outcome, ClaimOutcome::InFlight(_)));
    assert_eq!(shop.paid().await?, (0, 0));
    Ok(())
}

/// A transaction left open would keep its key from everybody for a minute.
async fn a_transaction_dropped_at_any_poll_is_not_left_open(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx).await?;
    for polls in 0..400 {
        let request = cx.request(&cx.key(format!("dropped-{polls}")));
        let finished = polled(shop.pay_once(&request), polls).await;
        let outcome = loop {
            match cx.store().claim(&cx.request(request.key())).await {
                Err(error) if error.kind() == ErrorKind::Contention => {}
                outcome => break outcome?,
            }
        };
        let whole = matches!(
            outcome,
            ClaimOutcome::Acquired(_) | ClaimOutcome::Completed(_)
        );
        assert!(whole, "half of it is there after {polls} polls");
        if finished.is_some() {
            return Ok(());
        }
    }
    Ok(())
}
