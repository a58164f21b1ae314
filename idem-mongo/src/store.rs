//! [`MongoStore`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use idem_core::backend::{FinalResult, check, check_scheme, misread, not_connected};
use idem_core::{
    BatchStore, CheckpointStore, Claim, ClaimOutcome, ClaimRequest, Effect, Error, ErrorKind,
    Failure, Finish, IdempotencyStore, Key, Limits, Record, RecordAdmin, Response, Result,
    WatermarkStore,
};
use mongodb::Client;
use mongodb::bson::doc;
use mongodb::error::ErrorKind as MongoKind;
use mongodb::options::ClientOptions;

use crate::claim_batcher::{Answer, ClaimBatcher};
use crate::config::Config;
use crate::error::{Access, classify};
use crate::lookup_batcher::LookupBatcher;
use crate::operations::{Operations, since};
use crate::row::Row;
use crate::session::Session;
use crate::statements::ClaimParams;

pub(crate) const BACKEND: &str = "mongo";

const FORM: &str = "mongodb://user:password@host:port/database?replicaSet=…";

/// The default time in which the driver has to find a primary for [`MongoStore::connect`]; the
/// driver's own default of 30 s is longer than callers wait.
const SERVER_SELECTION: Duration = Duration::from_secs(5);
/// The default of [`MongoStore::connect`]; the driver's own is 10.
const MAX_POOL_SIZE: u32 = 64;

/// The store on MongoDB.
///
/// A clone shares the client. The store creates no collections: see [`migrate`](Self::migrate).
/// Before that every operation returns `Misconfigured`; a store checks this until an operation has
/// found the collection migrated. If the collection is dropped under a working store, MongoDB
/// creates one without indexes with the next write.
#[derive(Clone)]
pub struct MongoStore {
    client: Client,
    pub(crate) operations: Arc<Operations>,
    pub(crate) lookups: LookupBatcher,
    pub(crate) claims: ClaimBatcher,
}

impl MongoStore {
    /// Creates a store on the caller's client, with the default [`Config`].
    ///
    /// By default the client's pool has at most 10 connections, and the driver searches for a
    /// server for 30 s; see [`connect`](Self::connect).
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self::with_config(client, Config::new())
    }

    /// Creates a store on the caller's client. Read preference, read concern and write concern are
    /// the store's own, whatever the client's are.
    #[must_use]
    pub fn with_config(client: Client, config: Config) -> Self {
        let operations = Arc::new(Operations::new(&client, config));
        Self {
            client,
            lookups: LookupBatcher::new(&operations),
            claims: ClaimBatcher::new(&operations),
            operations,
        }
    }

    /// Creates a store on its own client: retryable writes, at most 64 connections, opened as
    /// needed, and 5 s to find a server. The URL may set other values.
    ///
    /// `url` is `mongodb://user:password@host:port/database?replicaSet=…`, as the driver reads it.
    ///
    /// # Errors
    ///
    /// `Misconfigured` when the URL cannot be read; `Unavailable` or `Misconfigured` when no
    /// connection can be made.
    pub async fn connect(url: &str, config: Config) -> Result<Self> {
        let read = async {
            check_scheme(url, &["mongodb", "mongodb+srv"], FORM)?;
            if !cfg!(feature = "srv") && url.to_ascii_lowercase().starts_with("mongodb+srv") {
                let message = "the URL is `mongodb+srv`, and idem-mongo was built without its feature \
                               `srv`; turn it on";
                return Err(Error::new(ErrorKind::Misconfigured, Effect::None, message));
            }
            let options = ClientOptions::parse(url).await;
            options.map_err(|error| match &*error.kind {
                MongoKind::InvalidArgument { .. } => misread(FORM, error),
                _ => classify(error, Access::Read),
            })
        };
        let mut options = read.await.map_err(|error| error.at(BACKEND, "connect"))?;
        let hosts: Vec<_> = options.hosts.iter().map(ToString::to_string).collect();
        let place = hosts.join(",");
        let at = |error| not_connected(error, &place).at(BACKEND, "connect");
        options
            .server_selection_timeout
            .get_or_insert(SERVER_SELECTION);
        options.max_pool_size.get_or_insert(MAX_POOL_SIZE);
        options.app_name.get_or_insert_with(|| "idem".to_owned());
        let client = Client::with_options(options);
        let client = client.map_err(|error| at(classify(error, Access::Read)))?;
        let store = Self::with_config(client, config);
        let database = store.operations.database.clone();
        let hello = async move { database.run_command(doc! { "hello": 1 }).await };
        let answer = store.session().by_itself(Access::Read, hello).await;
        answer
            .map_err(at)?
            .map_err(|error| at(classify(error, Access::Read)))?;
        Ok(store)
    }

    /// Returns the client.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.operations.config
    }

    pub(crate) fn session(&self) -> Session<'static> {
        Session::alone(&self.operations.config)
    }

    /// Claims a key: by itself, or in a batch with concurrent callers if there are enough.
    pub(crate) async fn claim_once(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        let (operations, key) = (&self.operations, request.key());
        let mut session = self.session();
        let underway = self.lookups.0.enter();
        let is_batched = operations.config.batching() && underway.is_in_company();
        if !is_batched || operations.is_locked(&session, key) {
            return operations.claim(&mut session, request).await;
        }
        let checked = check::claim(request, &operations.config.limits())?;
        let params = ClaimParams::new(request, checked);
        operations.ready(&session).await?;
        if operations.looks_up_first(key) {
            let seen = self.lookup(&mut session, &params).await?;
            if let Some(row) = seen {
                return operations
                    .claim_from(&mut session, &params, Some(row))
                    .await;
            }
        }
        let claimed = self.claims.0.ask(request.clone());
        let sent = match session.wait_for(Access::Write, claimed).await? {
            Some(Answer::Decided(outcome)) => return outcome,
            Some(Answer::Alone(sent)) => sent,
            None => Access::Write,
        };
        // This recognises a claim that the batch has written.
        let claimed = operations.claim_from(&mut session, &params, None).await;
        claimed.map_err(|error| since(error, sent))
    }

    /// Looks up the record together with concurrent callers.
    async fn lookup(
        &self,
        session: &mut Session<'_>,
        params: &ClaimParams<'_>,
    ) -> Result<Option<Row>> {
        let found = self.lookups.0.ask(params.request.key().path());
        match session.wait_for(Access::Read, found).await? {
            Some(Err(error)) if error.kind() == ErrorKind::Unavailable => Err(error),
            Some(Ok(row)) => Ok(row),
            // The error may come from another caller's read.
            Some(Err(_)) | None => self.operations.lookup(session, params, Access::Read).await,
        }
    }

    /// Seals or releases.
    async fn finish(&self, claim: &Claim, result: Result<FinalResult>) -> Result<()> {
        let mut session = self.session();
        self.operations.finish(&mut session, claim, &result?).await
    }
}

/// Shows the names, not the client, whose options hold the password.
impl fmt::Debug for MongoStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MongoStore")
            .field("config", &self.operations.config)
            .finish_non_exhaustive()
    }
}

pub(crate) fn at(operation: &'static str) -> impl Fn(Error) -> Error {
    move |error| error.at(BACKEND, operation)
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl IdempotencyStore for MongoStore {
    fn backend(&self) -> &'static str {
        BACKEND
    }

    fn limits(&self) -> Limits {
        self.operations.config.limits()
    }

    fn checkpoints(&self) -> Option<&dyn CheckpointStore> {
        Some(self)
    }

    fn watermarks(&self) -> Option<&dyn WatermarkStore> {
        Some(self)
    }

    fn admin(&self) -> Option<&dyn RecordAdmin> {
        Some(self)
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        self.claim_once(request).await.map_err(at("claim"))
    }

    async fn complete(
        &self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        let result = FinalResult::completed(response, retention, &self.limits());
        self.finish(claim, result).await.map_err(at("complete"))
    }

    async fn fail(&self, claim: &Claim, failure: &Failure, retention: Duration) -> Result<()> {
        let result = FinalResult::failed(failure, retention, &self.limits());
        self.finish(claim, result).await.map_err(at("fail"))
    }

    async fn release(&self, claim: &Claim) -> Result<()> {
        let result = Ok(FinalResult::released());
        self.finish(claim, result).await.map_err(at("release"))
    }

    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<Claim> {
        self.operations
            .renew(&mut self.session(), claim, lease)
            .await
            .map_err(at("renew"))
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        self.operations
            .get(&mut self.session(), key)
            .await
            .map_err(at("get"))
    }

    async fn delete_expired(&self, limit: u32) -> Result<u64> {
        let deleted = self
            .operations
            .delete_expired(&mut self.session(), limit)
            .await;
        deleted.map_err(at("delete_expired"))
    }

    async fn fail_abandoned(&self, limit: u32) -> Result<u64> {
        let failed = self
            .operations
            .fail_abandoned(&mut self.session(), limit)
            .await;
        failed.map_err(at("fail_abandoned"))
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl BatchStore for MongoStore {
    async fn claim_many(&self, requests: &[ClaimRequest]) -> Vec<Result<ClaimOutcome>> {
        let answers = self.operations.claim_many(requests).await;
        answers
            .into_iter()
            .map(|answer| answer.map_err(at("claim_many")))
            .collect()
    }

    async fn finish_many(&self, items: &[Finish]) -> Vec<Result<()>> {
        let answers = self.operations.finish_many(items).await;
        answers
            .into_iter()
            .map(|answer| answer.map_err(at("finish_many")))
            .collect()
    }
}
