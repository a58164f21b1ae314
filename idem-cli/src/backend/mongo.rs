//! MongoDB.

use std::sync::Arc;

use async_trait::async_trait;
use idem_core::BatchStore;
use idem_mongo::mongodb::Database;
use idem_mongo::mongodb::bson::{Bson, Document, doc};
use idem_mongo::{Config, MongoStore, SCHEMA_VERSION, schema_commands};

use super::{Backend, unanswered};
use crate::args::StoreArgs;
use crate::doctor::Findings;
use crate::failure::Result;

struct Mongo {
    store: MongoStore,
    has_tls: bool,
    is_local: bool,
}

fn config(args: &StoreArgs) -> Result<Config> {
    let mut config = Config::new().with_timeout(args.timeout);
    if let Some(collection) = &args.table {
        config = config.with_collection(collection)?;
    }
    if let Some(database) = &args.schema {
        config = config.with_database(database)?;
    }
    Ok(config)
}

pub(super) fn schema(args: &StoreArgs) -> Result<String> {
    Ok(schema_commands(&config(args)?))
}

pub(super) async fn connect(args: &StoreArgs) -> Result<Box<dyn Backend>> {
    let url = args.url()?;
    // The driver's future is deep.
    let store = Box::pin(MongoStore::connect(url.as_str(), config(args)?)).await?;
    let parameters = url
        .as_str()
        .split_once('?')
        .map_or("", |(_, parameters)| parameters);
    let parameters = parameters.to_ascii_lowercase();
    let is_off = parameters.contains("tls=false") || parameters.contains("ssl=false");
    let is_on = parameters.contains("tls=true") || parameters.contains("ssl=true");
    Ok(Box::new(Mongo {
        store,
        has_tls: is_on || (url.scheme() == "mongodb+srv" && !is_off),
        is_local: url.is_local(),
    }))
}

#[async_trait]
impl Backend for Mongo {
    fn store(&self) -> Arc<dyn BatchStore> {
        Arc::new(self.store.clone())
    }

    async fn migrate(&self) -> idem_core::Result<()> {
        self.store.migrate().await
    }

    async fn verify(&self) -> idem_core::Result<()> {
        self.store.verify().await
    }

    async fn examine(&self, findings: &mut Findings) -> Result<()> {
        let build = self.ask(doc! { "buildInfo": 1 }).await?;
        let version = build.get_str("version").unwrap_or("of unknown version");
        findings.version("MongoDB", version, SCHEMA_VERSION);
        findings.clock(|| self.clock()).await?;
        let hello = self.ask(doc! { "hello": 1 }).await?;
        let is_router = hello
            .get_str("msg")
            .is_ok_and(|message| message == "isdbgrid");
        match (
            hello.get_bool("isWritablePrimary"),
            hello.get_str("setName"),
        ) {
            (Ok(true), Ok(set)) => findings.ok("role", format!("primary of {set}")),
            (Ok(true), _) if is_router => findings.ok("role", "mongos"),
            (Ok(true), _) => findings.warning(
                "role",
                "a server by itself",
                "it has no transactions, and loses everything with its disk; make it a replica set",
            ),
            _ => findings.error(
                "role",
                "not a primary",
                "claims need the primary; name the replica set in the URL (`?replicaSet=…`)",
            ),
        }
        findings.ok(
            "write concern",
            "w: majority, j: true, sent by the store with each write",
        );
        self.journal(findings).await;
        findings.tls(self.has_tls, self.is_local, "add `?tls=true` to the URL");
        Ok(())
    }

    #[cfg(feature = "certify")]
    async fn destroy(&self) -> Result<()> {
        let name = self.store.config().collection().to_owned();
        for name in [format!("{name}_watermarks"), name] {
            let dropped = self.database().collection::<Document>(&name).drop().await;
            dropped.map_err(|error| unanswered("the removal of the collections", error))?;
        }
        Ok(())
    }
}

impl Mongo {
    /// Returns the database that the store takes, too.
    fn database(&self) -> Database {
        let client = self.store.client();
        match self.store.config().database() {
            Some(name) => client.database(name),
            None => client
                .default_database()
                .unwrap_or_else(|| client.database("idem")),
        }
    }

    async fn ask(&self, command: Document) -> Result<Document> {
        let answer = self.database().run_command(command).await;
        answer.map_err(|error| unanswered("its settings", error))
    }

    async fn clock(&self) -> Result<i64> {
        let hello = self.ask(doc! { "hello": 1 }).await?;
        match hello.get("localTime") {
            Some(Bson::DateTime(time)) => Ok(time.timestamp_millis().saturating_mul(1_000)),
            _ => Err(unanswered("its clock", "no localTime")),
        }
    }

    /// Reports whether a majority's acknowledgement includes the journals.
    async fn journal(&self, findings: &mut Findings) {
        let admin = self.store.client().database("admin");
        let config = admin.run_command(doc! { "replSetGetConfig": 1 }).await;
        let config = config.ok();
        let config = config
            .as_ref()
            .and_then(|answer| answer.get_document("config").ok());
        match config.map(|config| config.get_bool("writeConcernMajorityJournalDefault")) {
            Some(Ok(false)) => findings.warning(
                "journal",
                "writeConcernMajorityJournalDefault: false",
                "a majority may acknowledge from memory; the store asks for the journal of the primary alone",
            ),
            Some(_) => findings.ok("journal", "a majority writes its journals before it acknowledges"),
            None => findings.unseen(
                "journal",
                "it needs the privilege replSetGetConfig; see `writeConcernMajorityJournalDefault`",
            ),
        }
    }
}
