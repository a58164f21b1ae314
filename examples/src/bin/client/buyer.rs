//! [`Buyer`]: a process that has its orders charged, and may be killed at any point.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::{TryStreamExt, stream};
use idem_client::{
    Answer, Delivery, FileKeys, IdempotencyClient, Intent, Protocol, RetryBudget, RetryPolicy,
    StoreKeys,
};
use idem_core::BoxError;
use idem_sqlite::{Config, SqliteStore};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use serde_json::json;

use crate::server::is_unlucky;
use crate::{Note, notes, notes_of};

/// How many orders a buyer sends at once.
const AT_ONCE: usize = 4;

/// One process.
#[derive(Debug)]
pub(crate) struct Buyer {
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) folder: PathBuf,
    pub(crate) orders: u32,
    pub(crate) seed: u64,
    pub(crate) is_sabotaged: bool,
}

/// Returns the name of an order: the buyers `shop-1` and `shop-2` have the same orders.
pub(crate) fn order(buyer: &str, number: u32) -> String {
    let place = buyer.split('-').next().unwrap_or_default();
    format!("{place}-order-{number}")
}

fn store_url(folder: &Path) -> String {
    format!("sqlite:{}", folder.join("shop-keys.db").display())
}

/// Creates the tables of the shop's keys.
pub(crate) async fn prepare(folder: &Path) -> Result<(), BoxError> {
    let store = SqliteStore::connect(&store_url(folder), Config::new()).await?;
    Ok(store.migrate().await?)
}

impl Buyer {
    /// Buys what is not noted as bought, then waits for the end of the parent.
    pub(crate) async fn buy(&self) -> Result<(), BoxError> {
        // The pipe ends with the parent, however the parent ends.
        std::thread::spawn(|| {
            let _ = std::io::stdin().read(&mut [0]);
            std::process::exit(0);
        });
        let client = self.client().await?;
        let path = notes_of(&self.folder, &self.name);
        let bought: BTreeSet<String> = notes(&path)?.into_iter().map(|note| note.order).collect();
        // Both buyers of the shop take the same way, so that they meet.
        let mut numbers: Vec<u32> = (0..self.orders).collect();
        numbers.shuffle(&mut StdRng::seed_from_u64(self.seed));
        let orders = numbers.into_iter().map(|number| order(&self.name, number));
        let open = orders.filter(|order| !bought.contains(order));
        stream::iter(open.map(Ok))
            .try_for_each_concurrent(AT_ONCE, |order| self.charge(&client, order, &path))
            .await?;
        std::future::pending().await
    }

    async fn client(&self) -> Result<ClientWithMiddleware, BoxError> {
        // The server comes back within a moment, again and again.
        let retry = RetryPolicy::default()
            .with_max_tries(200)
            .with_try_timeout(Duration::from_secs(2))
            .with_pauses(Duration::from_millis(10), Duration::from_millis(200));
        let protocol = Protocol::idem_http();
        let client = match self.name.as_str() {
            "kiosk" => {
                let keys = FileKeys::open(self.folder.join("kiosk-keys.jsonl")).await?;
                IdempotencyClient::new(keys, protocol)
            }
            _ => {
                let store = SqliteStore::connect(&store_url(&self.folder), Config::new()).await?;
                IdempotencyClient::new(StoreKeys::new(store, "bank")?, protocol)
            }
        };
        let client = client
            .with_retry(retry)
            .with_budget(RetryBudget::new(10_000, 0.0, 0.0));
        Ok(ClientBuilder::new(reqwest::Client::new())
            .with(client)
            .build())
    }

    async fn charge(
        &self,
        client: &ClientWithMiddleware,
        order: String,
        path: &Path,
    ) -> Result<(), BoxError> {
        let body = serde_json::to_vec(&json!({"order": order, "amount": 1250}))?;
        let mut request = client
            .post(&self.url)
            .header("content-type", "application/json")
            .body(body);
        if !self.is_sabotaged {
            request = request.with_extension(Intent::new(format!("{order}/charge"))?);
        }
        let response = request.send().await?;
        let delivery: Delivery = response
            .extensions()
            .get()
            .cloned()
            .ok_or("the client gave the request no key")?;
        if response.status() != 201 {
            return Err(format!("the answer is {}", response.status()).into());
        }
        let text = response.text().await?;
        // Without an intent every answer is a first one, and the crashes would not end.
        let may_crash = delivery.answer == Answer::First && !self.is_sabotaged;
        if may_crash && is_unlucky(self.seed, &self.name, &order) {
            std::process::abort();
        }
        let note = Note {
            order,
            key: delivery.key.as_str().to_owned(),
            text,
            is_replay: delivery.answer == Answer::Replayed,
            tries: delivery.tries,
        };
        let mut line = serde_json::to_vec(&note)?;
        line.push(b'\n');
        let mut file = OpenOptions::new().append(true).create(true).open(path)?;
        Ok(file.write_all(&line)?)
    }
}
