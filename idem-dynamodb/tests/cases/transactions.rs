//! The record and the caller's items commit together.

use std::time::Duration;

use idem_conformance::{CaseResult, Context};
use idem_core::{
    Advance, Checkpoint, CheckpointStore, Claim, ErrorKind, IdempotencyStore, Key, Record,
    Response, WatermarkStore,
};
use idem_dynamodb::aws_sdk_dynamodb::Client;
use idem_dynamodb::aws_sdk_dynamodb::types::{AttributeValue, Put, TransactWriteItem, Update};
use idem_dynamodb::{DynamoStore, Transaction, TransactionOutcome};

use super::HOUR;
use crate::support;
use crate::support::service::Act::{Lose, Refuse};
use crate::support::service::Service;

/// Payments, in the table of the records, and how many of them were committed.
struct Shop {
    store: DynamoStore,
    client: Client,
    table: String,
}

impl Shop {
    async fn open(cx: &Context) -> CaseResult<Self> {
        let harness = support::harness()?;
        Ok(Self {
            store: harness.store(cx.namespace()).await?,
            client: harness.client(),
            table: cx.namespace().to_owned(),
        })
    }

    fn behind(cx: &Context, service: &Service) -> CaseResult<Self> {
        let harness = support::harness()?;
        Ok(Self {
            store: service.store(cx, &harness, |config| config)?,
            client: harness.client(),
            table: cx.namespace().to_owned(),
        })
    }

    /// Returns a write that would hide no second one.
    fn payment(&self) -> CaseResult<TransactWriteItem> {
        let update = Update::builder()
            .table_name(&self.table)
            .key("pk", AttributeValue::S("payments".to_owned()))
            .update_expression("ADD paid :one")
            .expression_attribute_values(":one", AttributeValue::N("1".to_owned()));
        Ok(TransactWriteItem::builder().update(update.build()?).build())
    }

    /// Returns a transaction of a payment and the end of the claim.
    async fn transaction(&self, claim: &Claim, body: &'static str) -> CaseResult<Transaction> {
        let mut transaction = Transaction::new();
        transaction.push(self.payment()?);
        let response = Response::new(201, body);
        self.store
            .complete_in(&mut transaction, claim, &response, HOUR)
            .await?;
        Ok(transaction)
    }

    /// Returns a transaction of a payment, a checkpoint and an advance.
    async fn step(
        &self,
        claim: &Claim,
        point: &Checkpoint,
        source: &Key,
        version: u64,
    ) -> CaseResult<Transaction> {
        let (store, mut transaction) = (&self.store, Transaction::new());
        transaction.push(self.payment()?);
        store.checkpoint_in(&mut transaction, claim, point).await?;
        store
            .advance_in(&mut transaction, source, version, HOUR)
            .await?;
        Ok(transaction)
    }

    async fn paid(&self) -> CaseResult<u32> {
        let read = self
            .client
            .get_item()
            .table_name(&self.table)
            .key("pk", AttributeValue::S("payments".to_owned()))
            .consistent_read(true);
        let item = read.send().await?.item.unwrap_or_default();
        match item.get("paid") {
            Some(AttributeValue::N(paid)) => Ok(paid.parse()?),
            _ => Ok(0),
        }
    }
}

async fn completed(cx: &Context, claim: &Claim) -> CaseResult<String> {
    match cx.store().get(claim.key()).await? {
        Some(Record::Completed(record)) => {
            Ok(String::from_utf8_lossy(record.response.body()).into_owned())
        }
        other => panic!("not completed: {}", other.is_some()),
    }
}

pub(super) async fn record_and_business_item_commit_together(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx).await?;
    let claim = cx.claim(&cx.request(&cx.key("one"))).await?;
    let transaction = shop.transaction(&claim, "paid").await?;
    let outcome = shop.store.commit(&transaction).await?;
    assert_eq!(outcome, TransactionOutcome::Committed);
    assert_eq!(shop.paid().await?, 1);
    assert_eq!(completed(cx, &claim).await?, "paid");
    Ok(())
}

pub(super) async fn a_refused_item_leaves_the_claim(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx).await?;
    let claim = cx.claim(&cx.request(&cx.key("one"))).await?;
    let mut transaction = shop.transaction(&claim, "paid").await?;
    let impossible = Put::builder()
        .table_name(&shop.table)
        .item("pk", AttributeValue::S("balance".to_owned()))
        .condition_expression("attribute_exists(pk)");
    let impossible = TransactWriteItem::builder().put(impossible.build()?);
    let index = transaction.push(impossible.build());
    let outcome = shop.store.commit(&transaction).await?;
    let TransactionOutcome::Refused(refusal) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!((index, refusal.index), (1, 1));
    assert_eq!(refusal.code, "ConditionalCheckFailed");
    assert_eq!(shop.paid().await?, 0);
    let transaction = shop.transaction(&claim, "paid").await?;
    let outcome = shop.store.commit(&transaction).await?;
    assert_eq!(outcome, TransactionOutcome::Committed, "the claim was held");
    Ok(())
}

pub(super) async fn a_lost_claim_commits_nothing(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx).await?;
    let stale = cx.stale_claim(&cx.request(&cx.key("one"))).await?;
    let transaction = shop.transaction(&stale, "late").await?;
    // Between the step and its commit another attempt takes the key.
    let second = cx.claim(&cx.request(stale.key())).await?;
    let error = shop.store.commit(&transaction).await.unwrap_err();
    assert!(error.is_claim_lost(), "{error}");
    assert_eq!(shop.paid().await?, 0);
    let transaction = shop.transaction(&second, "paid").await?;
    shop.store.commit(&transaction).await?;
    let other = shop.transaction(&second, "other").await?;
    let error = shop.store.commit(&other).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadySealed, "{error}");
    assert_eq!(shop.paid().await?, 1);
    Ok(())
}

pub(super) async fn a_transaction_whose_answer_was_lost_is_committed_once(
    cx: &Context,
) -> CaseResult {
    let harness = support::harness()?;
    let service = Service::start(&harness).await?;
    let shop = Shop::behind(cx, &service)?;
    let claim = cx.claim(&cx.request(&cx.key("one"))).await?;
    let transaction = shop.transaction(&claim, "paid").await?;
    service.take_bodies();
    service.next(&[Lose]);
    let outcome = shop.store.commit(&transaction).await?;
    assert_eq!(outcome, TransactionOutcome::Committed, "its own token");
    service.next(&[Refuse(400, "TransactionInProgressException"), Lose]);
    let outcome = shop.store.commit(&transaction).await?;
    assert_eq!(outcome, TransactionOutcome::Committed, "again");
    let outcome = shop.store.commit(&transaction.clone()).await?;
    assert_eq!(outcome, TransactionOutcome::Committed, "a copy");
    let bodies = service.take_bodies();
    assert_eq!(
        bodies.len(),
        6,
        "lost, repeated, refused, lost, repeated, and of the copy"
    );
    assert!(bodies.windows(2).all(|two| two[0] == two[1]), "{bodies:#?}");
    assert_eq!(shop.paid().await?, 1);
    service.next(&[Lose; 10]);
    let claim = cx.claim(&cx.request(&cx.key("two"))).await?;
    let transaction = shop.transaction(&claim, "paid").await;
    assert!(
        transaction.is_ok(),
        "the clock is known, so nothing is sent"
    );
    let error = shop.store.commit(&transaction?).await.unwrap_err();
    assert_eq!(error.effect(), idem_core::Effect::Unknown, "{error}");
    Ok(())
}

/// A caller that has lost the transaction itself builds another one: the record recognizes it.
pub(super) async fn a_transaction_that_is_built_again_is_committed_once(
    cx: &Context,
) -> CaseResult {
    let shop = Shop::open(cx).await?;
    let claim = cx.claim(&cx.request(&cx.key("one"))).await?;
    for expected in [
        TransactionOutcome::Committed,
        TransactionOutcome::CommittedBefore,
        TransactionOutcome::CommittedBefore,
    ] {
        let transaction = shop.transaction(&claim, "paid").await?;
        assert_eq!(shop.store.commit(&transaction).await?, expected);
    }
    assert_eq!(shop.paid().await?, 1);
    Ok(())
}

pub(super) async fn of_many_transactions_under_one_claim_one_commits(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("one"))).await?;
    let mut tasks = Vec::new();
    for _ in 0..12 {
        let shop = Shop::open(cx).await?;
        let transaction = shop.transaction(&claim, "paid").await?;
        tasks.push(tokio::spawn(async move {
            shop.store.commit(&transaction).await
        }));
    }
    let mut committed = 0;
    for task in tasks {
        committed += u32::from(task.await?? == TransactionOutcome::Committed);
    }
    assert_eq!(committed, 1);
    assert_eq!(Shop::open(cx).await?.paid().await?, 1);
    Ok(())
}

pub(super) async fn checkpoint_and_mark_commit_with_the_transaction(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx).await?;
    let (store, source) = (&shop.store, cx.key("source"));
    let claim = cx.claim(&cx.request(&cx.key("one"))).await?;
    let point = Checkpoint::new("reserved", "seat 7")?;
    let outcome = store
        .commit(&shop.step(&claim, &point, &source, 5).await?)
        .await?;
    assert_eq!(outcome, TransactionOutcome::Committed);
    assert_eq!(store.last_checkpoint(&claim).await?, Some(point.clone()));
    assert_eq!(store.watermark(&source).await?, Some(5));
    let outcome = store
        .commit(&shop.step(&claim, &point, &source, 6).await?)
        .await?;
    assert_eq!(outcome, TransactionOutcome::CommittedBefore);
    let mut late = Transaction::new();
    late.push(shop.payment()?);
    store.advance_in(&mut late, &source, 4, HOUR).await?;
    let outcome = store.commit(&late).await?;
    let stale = Advance::Stale { current: 5 };
    assert_eq!(outcome, TransactionOutcome::NotAdvanced(stale));
    assert_eq!(shop.paid().await?, 1);
    Ok(())
}

/// Callers may send the items by their own client.
pub(super) async fn a_transaction_of_ones_own_decodes_its_reasons(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx).await?;
    let claim = cx.claim(&cx.request(&cx.key("one"))).await?;
    let transaction = shop.transaction(&claim, "paid").await?;
    let send = || {
        shop.client
            .transact_write_items()
            .client_request_token(transaction.client_request_token())
            .set_transact_items(Some(transaction.items().to_vec()))
            .send()
    };
    send().await?;
    send().await?;
    assert_eq!(shop.paid().await?, 1, "the token makes both one");
    let again = shop.transaction(&claim, "paid").await?;
    let canceled = shop
        .client
        .transact_write_items()
        .set_transact_items(Some(again.items().to_vec()))
        .send()
        .await
        .expect_err("refused")
        .into_service_error();
    let idem_dynamodb::aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError::TransactionCanceledException(canceled) =
        canceled
    else {
        panic!("not canceled");
    };
    let outcome = again.canceled(canceled.cancellation_reasons())?;
    assert_eq!(outcome, TransactionOutcome::CommittedBefore);
    // A claim of another process, after a crash: the record answers, and nobody pays again.
    tokio::time::sleep(Duration::from_millis(1)).await;
    let duplicate = cx.store().claim(&cx.request(claim.key())).await?;
    assert_eq!(duplicate.name(), "completed");
    Ok(())
}
