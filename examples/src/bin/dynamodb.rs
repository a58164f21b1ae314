//! The handler of a payment on DynamoDB: the payment, the balance and the record of the request
//! commit in one `TransactWriteItems`. Handlers are dropped wherever they are, as in a crash, and
//! each request is delivered several times.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use futures_util::future::join_all;
use idem_core::engine::InterruptPolicy;
use idem_core::{BoxError, BusyPolicy, Idempotency, Key, Policy, Response, RunError, Work};
use idem_dynamodb::aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use idem_dynamodb::aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType,
    ScalarAttributeType, TransactWriteItem, Update,
};
use idem_dynamodb::aws_sdk_dynamodb::{Client, Config as ClientConfig};
use idem_dynamodb::{Config, DynamoStore, Transaction, TransactionOutcome};
use idem_storm::report::{Report, exit};

/// The table of accounts and payments, and the requests' records in one of their own.
#[derive(Clone)]
struct Shop {
    client: Client,
    store: DynamoStore,
    idempotency: Idempotency,
    table: String,
}

/// What a payment comes to.
type Receipt = String;

fn text(text: impl Into<String>) -> AttributeValue {
    AttributeValue::S(text.into())
}

fn number(number: impl Into<u64>) -> AttributeValue {
    AttributeValue::N(number.into().to_string())
}

impl Shop {
    /// Handles a request: the same answer for each delivery, and one payment.
    async fn handle(&self, id: &str, cents: u32) -> Result<Receipt, BoxError> {
        let key = Key::new("tenant-7", "payments.create", id)?;
        let mut sendings = 1;
        loop {
            let pay = async |work: Work| self.pay(&work, id, cents).await;
            match self.idempotency.run(&key, &("EUR", cents), pay).await {
                Ok(receipt) => return Ok(receipt.into_inner()),
                Err(error) if sendings < SENDINGS && is_sent_again(&error) => sendings += 1,
                Err(RunError::Store(reason)) => {
                    return Err(format!("no decision in {SENDINGS} sendings: {reason}").into());
                }
                Err(error) => return Err(error.to_string().into()),
            }
        }
    }

    /// The work: it writes nothing except in the transaction that completes the claim.
    async fn pay(&self, work: &Work, id: &str, cents: u32) -> Result<Receipt, BoxError> {
        let claim = work.claim().ok_or("a run with a key has a claim")?;
        let receipt = format!("receipt of {id}");
        let mut transaction = Transaction::new();
        transaction.push(self.payment(id, cents)?);
        let debit = transaction.push(self.debit(cents)?);
        // The same response that the engine makes of the receipt.
        let response = Response::json(&receipt)?;
        let retention = Policy::default().retention();
        self.store
            .complete_in(&mut transaction, &claim, &response, retention)
            .await?;
        match self.store.commit(&transaction).await? {
            TransactionOutcome::Committed | TransactionOutcome::CommittedBefore => Ok(receipt),
            TransactionOutcome::Refused(refusal) if refusal.index == debit => {
                Err("the account has too little".into())
            }
            other => Err(format!("the payment was not committed: {other:?}").into()),
        }
    }

    /// The payment's own item. Nothing here would refuse a second one: the record does.
    fn payment(&self, id: &str, cents: u32) -> Result<TransactWriteItem, BoxError> {
        let put = Update::builder()
            .table_name(&self.table)
            .key("id", text(format!("payment {id}")))
            .update_expression("SET cents = :cents ADD times :one")
            .expression_attribute_values(":cents", number(cents))
            .expression_attribute_values(":one", number(1_u32));
        Ok(TransactWriteItem::builder().update(put.build()?).build())
    }

    fn debit(&self, cents: u32) -> Result<TransactWriteItem, BoxError> {
        let update = Update::builder()
            .table_name(&self.table)
            .key("id", text("account"))
            .update_expression("SET balance = balance - :cents")
            .condition_expression("balance >= :cents")
            .expression_attribute_values(":cents", number(cents));
        Ok(TransactWriteItem::builder().update(update.build()?).build())
    }

    /// Creates the tables, with this balance in the account.
    async fn create(endpoint: &str, balance: u64) -> Result<Self, BoxError> {
        let name = format!("idem_shop_{:08x}", rand::random::<u32>());
        let client = client(endpoint);
        let key = AttributeDefinition::builder()
            .attribute_name("id")
            .attribute_type(ScalarAttributeType::S);
        let hash = KeySchemaElement::builder()
            .attribute_name("id")
            .key_type(KeyType::Hash);
        let created = client
            .create_table()
            .table_name(&name)
            .billing_mode(BillingMode::PayPerRequest)
            .attribute_definitions(key.build()?)
            .key_schema(hash.build()?);
        created.send().await?;
        let config = Config::new().with_table(format!("{name}_records"))?;
        let store = DynamoStore::with_config(client.clone(), config);
        // It returns when its table is active, and the other one is older.
        store.migrate().await?;
        let account = client.put_item().table_name(&name);
        let account = account.item("id", text("account"));
        account.item("balance", number(balance)).send().await?;
        let policy = Policy::default()
            .with_lease(LEASE)
            .with_on_cancel(InterruptPolicy::LetExpire)
            .with_on_busy(BusyPolicy::Wait { limit: WAIT });
        Ok(Self {
            idempotency: Idempotency::new(store.clone()).with_policy(policy),
            client,
            store,
            table: name,
        })
    }

    /// Reads a number of an item.
    async fn read(&self, id: &str, name: &str) -> Result<u64, BoxError> {
        let read = self.client.get_item().table_name(&self.table);
        let read = read.key("id", text(id)).consistent_read(true);
        let item = read.send().await?.item.unwrap_or_default();
        match item.get(name) {
            Some(AttributeValue::N(number)) => Ok(number.parse()?),
            _ => Ok(0),
        }
    }

    async fn remove(&self) -> Result<(), BoxError> {
        for table in [self.table.as_str(), self.store.config().table()] {
            self.client.delete_table().table_name(table).send().await?;
        }
        Ok(())
    }
}

/// Returns a client of an imitation. An application takes `aws-config`, for its credentials.
fn client(endpoint: &str) -> Client {
    let settings = ClientConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .endpoint_url(endpoint)
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("any", "any", None, None, "example"));
    Client::from_conf(settings.build())
}

/// Delivers payments several times each, drops handlers amid their work, and checks that each was
/// paid once.
///
/// Exit status 0: all were; 1: some were not; 2: the run could not be made.
#[derive(Debug, Parser)]
#[command(name = "dynamodb", version, max_term_width = 100)]
struct Args {
    /// The endpoint of DynamoDB or an imitation, such as `cargo xtask servers up dynamodb` starts
    #[arg(long, value_name = "URL", env = "IDEM_DYNAMODB_URL")]
    endpoint: String,

    /// Number of payments
    #[arg(long, value_name = "N", default_value_t = 40)]
    payments: u32,
}

/// Returns whether the request has to be sent again: the store gave no decision, another delivery
/// took the claim over while this one was late, or the commit has no certain answer. The key makes
/// it safe.
fn is_sent_again(error: &RunError<BoxError, Receipt>) -> bool {
    match error {
        RunError::Store(_) => true,
        RunError::Work(reason) => reason
            .downcast_ref::<idem_core::Error>()
            .is_some_and(|error| error.is_claim_lost() || error.is_retryable()),
        _ => false,
    }
}

/// How long a delivery waits for another one's answer.
const WAIT: Duration = Duration::from_secs(60);

/// Short, so that a payment whose handler was dropped goes on soon.
const LEASE: Duration = Duration::from_secs(1);

/// How often each payment is delivered, at once.
const DELIVERIES: u32 = 4;

/// The longest time after which a handler is dropped, in its first deliveries.
const LONGEST_LIFE: Duration = Duration::from_millis(60);

/// How often a request is sent at most.
const SENDINGS: u32 = 5;

/// Delivers a payment until it has an answer. Returns the receipt, and how many handlers were
/// dropped.
async fn deliver(shop: &Shop, id: &str, cents: u32) -> Result<(Receipt, u64), BoxError> {
    let mut dropped = 0;
    for _ in 0..2 {
        let life = LONGEST_LIFE.mul_f64(rand::random_range(0.0..=1.0));
        match tokio::time::timeout(life, shop.handle(id, cents)).await {
            Ok(receipt) => return Ok((receipt?, dropped)),
            Err(_) => dropped += 1,
        }
    }
    Ok((shop.handle(id, cents).await?, dropped))
}

async fn run(args: Args) -> Result<bool, BoxError> {
    let cents = |number: u32| 100 + number;
    let total = (0..args.payments).map(|number| u64::from(cents(number)));
    let total: u64 = total.sum();
    let shop = Shop::create(&args.endpoint, total).await?;
    let deliveries = (0..args.payments).flat_map(|number| (0..DELIVERIES).map(move |_| number));
    let deliveries = deliveries.map(async |number| {
        let id = format!("payment-{number}");
        let (receipt, dropped) = deliver(&shop, &id, cents(number)).await?;
        Ok::<_, BoxError>((receipt == format!("receipt of {id}"), dropped))
    });
    let (mut right, mut dropped) = (true, 0);
    for delivered in join_all(deliveries).await {
        let (is_right, drops) = delivered?;
        right &= is_right;
        dropped += drops;
    }
    let mut once = true;
    for number in 0..args.payments {
        let id = format!("payment payment-{number}");
        once &= shop.read(&id, "times").await? == 1;
    }
    let left = shop.read("account", "balance").await?;
    shop.remove().await?;

    let mut report = Report::new(format!("{} payments", args.payments));
    report.count("deliveries", u64::from(args.payments * DELIVERIES), "");
    report.count("dropped", dropped, "handlers, amid their work");
    report.check(right, "a delivery got another receipt");
    report.check(once, "a payment was committed twice, or not at all");
    report.check(left == 0, "the balance is not what the payments leave");
    Ok(report.print(
        "Every payment was made exactly once.",
        "Some payments were not made exactly once.",
    ))
}

#[tokio::main]
async fn main() -> ExitCode {
    exit("dynamodb", run(Args::parse()).await)
}
