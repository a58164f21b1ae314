//! The collection, its indexes, and how they come into being.

use idem_core::{Effect, Error, ErrorKind, Result};
use mongodb::bson::{Bson, Document, doc};
use mongodb::error::Error as MongoError;

use crate::config::Config;
use crate::error::{Sent, classify, code};
use crate::operations::Operations;
use crate::session::Session;
use crate::store::{BACKEND, MongoStore};

/// The version of the schema that this crate works with.
pub const SCHEMA_VERSION: u32 = 1;

/// The `_id` of the document that holds the version. No key's is like it: theirs have two colons.
const VERSION_ID: &str = "idem";

/// Of MongoDB 5.0: <https://github.com/mongodb/specifications/blob/master/source/wireversion-featurelist/wireversion-featurelist.md>.
const MIN_WIRE_VERSION: i64 = 13;

const NAMESPACE_EXISTS: i32 = 48;
const NAMESPACE_NOT_FOUND: i32 = 26;

const PURGE_INDEX: &str = "idem_purge_at";
const SWEEP_INDEX: &str = "idem_sweep_at";

/// What people run themselves in `mongosh`; [`MongoStore::migrate`] does the same.
///
/// It may be run any number of times, but for the first line, which fails when the collection is there.
#[must_use]
pub fn schema_commands(config: &Config) -> String {
    let name = config.collection();
    let database = config
        .database()
        .map(|database| format!("use {database}\n"))
        .unwrap_or_default();
    format!(
        r#"{database}db.createCollection("{name}", {{ collation: {{ locale: "simple" }} }})
db.getCollection("{name}").createIndex({{ purge_at: 1 }}, {{ name: "{PURGE_INDEX}", expireAfterSeconds: 0 }})
db.getCollection("{name}").createIndex({{ sweep_at: 1 }}, {{ name: "{SWEEP_INDEX}", sparse: true }})
db.getCollection("{name}").updateOne(
  {{ _id: "{VERSION_ID}" }},
  {{ $setOnInsert: {{ schema_version: NumberInt({SCHEMA_VERSION}) }} }},
  {{ upsert: true, writeConcern: {{ w: "majority" }} }}
)
// Where it is to be sharded: sh.shardCollection(db.getName() + ".{name}", {{ _id: "hashed" }})
"#
    )
}

impl MongoStore {
    /// Creates the collection and its indexes where they are missing, and checks server and version. Safe when many
    /// processes start at once, and when there is nothing to do it only reads.
    ///
    /// The user needs `readWrite` on the database, as for everything else.
    ///
    /// *Atomicity*: step by step, each repeatable; the version is written last.
    ///
    /// # Errors
    ///
    /// `Misconfigured` when the server is older than MongoDB 5.0, the collection has a collation, is capped, a view or a
    /// time series, has other indexes by the same names, or is of a later version; `Unavailable` as usual.
    ///
    /// # Cancellation
    ///
    /// Some of it may have happened; run it again.
    pub async fn migrate(&self) -> Result<()> {
        let at = |error: Error| error.at(BACKEND, "migrate");
        self.operations.migrate(&self.session()).await.map_err(at)
    }

    /// Checks that the server is one that this crate works with and that the collection is there, as this crate wants it,
    /// and of this version. Only reads.
    ///
    /// # Errors
    ///
    /// `Misconfigured` with what is to be done; `Unavailable` as usual.
    pub async fn verify(&self) -> Result<()> {
        let at = |error: Error| error.at(BACKEND, "verify");
        self.operations.verify(&self.session()).await.map_err(at)
    }
}

/// What there is of the schema.
enum Found {
    All,
    Part,
}

impl Operations {
    async fn migrate(&self, session: &Session<'_>) -> Result<()> {
        self.check_server(session).await?;
        if let Found::All = self.inspect(session).await? {
            return Ok(());
        }
        let name = self.config.collection();
        let simple = doc! { "create": name, "collation": { "locale": "simple" } };
        match self.command(session, simple, Sent::Write).await {
            Ok(Err(error)) if code(&error) == Some(NAMESPACE_EXISTS) => {}
            done => drop(done?.map_err(|error| classify(error, Sent::Write))?),
        }
        self.inspect(session).await?;
        self.write(
            session,
            doc! {
                "createIndexes": name,
                "indexes": [
                    { "key": { "purge_at": 1 }, "name": PURGE_INDEX, "expireAfterSeconds": 0 },
                    { "key": { "sweep_at": 1 }, "name": SWEEP_INDEX, "sparse": true },
                ],
            },
        )
        .await?;
        self.write_version(session).await?;
        match self.inspect(session).await? {
            Found::All => Ok(()),
            Found::Part => Err(incomplete()),
        }
    }

    pub(crate) async fn verify(&self, session: &Session<'_>) -> Result<()> {
        self.check_server(session).await?;
        match self.inspect(session).await? {
            Found::All => Ok(()),
            Found::Part => Err(incomplete()),
        }
    }

    /// `hello` needs no privilege, and tells a version that servers like MongoDB know, too.
    async fn check_server(&self, session: &Session<'_>) -> Result<()> {
        let hello = self.reading(session, doc! { "hello": 1 }).await?;
        let version = number(&hello, "maxWireVersion").unwrap_or(0);
        if version < MIN_WIRE_VERSION {
            return Err(misconfigured(format!(
                "the server speaks wire version {version}; MongoDB 5.0 ({MIN_WIRE_VERSION}) or later is needed"
            )));
        }
        Ok(())
    }

    /// What is there; an error when it does not suit.
    async fn inspect(&self, session: &Session<'_>) -> Result<Found> {
        let name = self.config.collection();
        let listed = self
            .reading(
                session,
                doc! { "listCollections": 1, "filter": { "name": name } },
            )
            .await?;
        let Some(collection) = first_batch(&listed).next() else {
            return Ok(Found::Part);
        };
        check_collection(collection)?;
        let indexes = self
            .command(session, doc! { "listIndexes": name }, Sent::Harmless)
            .await?;
        let indexes = match indexes {
            Ok(indexes) => indexes,
            Err(error) if code(&error) == Some(NAMESPACE_NOT_FOUND) => return Ok(Found::Part),
            Err(error) => return Err(classify(error, Sent::Harmless)),
        };
        let has = |key: &str| first_batch(&indexes).any(|index| is_index(index, key));
        let indexed = has("purge_at") && has("sweep_at");
        let version = self.version(session).await?;
        match version {
            Some(version) if version > i64::from(SCHEMA_VERSION) => Err(too_new(version)),
            Some(version) if indexed && version == i64::from(SCHEMA_VERSION) => Ok(Found::All),
            _ => Ok(Found::Part),
        }
    }

    async fn version(&self, session: &Session<'_>) -> Result<Option<i64>> {
        let collection = self.collection.clone();
        let look = async move { collection.find_one(doc! { "_id": VERSION_ID }).await };
        let found = session.by_itself(Sent::Harmless, look).await?;
        let found = found.map_err(|error| classify(error, Sent::Harmless))?;
        Ok(found.and_then(|found| number(&found, "schema_version")))
    }

    /// Of many that write it at once one inserts.
    async fn write_version(&self, session: &Session<'_>) -> Result<()> {
        let version = i32::try_from(SCHEMA_VERSION).unwrap_or(i32::MAX);
        let update = doc! { "$setOnInsert": { "schema_version": version } };
        let upsert = || {
            let (collection, update) = (self.collection.clone(), update.clone());
            async move {
                let upsert = collection.update_one(doc! { "_id": VERSION_ID }, update);
                upsert.upsert(true).await
            }
        };
        session.again(upsert).await.map(drop)
    }

    async fn reading(&self, session: &Session<'_>, command: Document) -> Result<Document> {
        let done = self.command(session, command, Sent::Harmless).await?;
        done.map_err(|error| classify(error, Sent::Harmless))
    }

    async fn write(&self, session: &Session<'_>, command: Document) -> Result<()> {
        let done = self.command(session, command, Sent::Write).await?;
        done.map(drop).map_err(|error| classify(error, Sent::Write))
    }

    async fn command(
        &self,
        session: &Session<'_>,
        mut command: Document,
        sent: Sent,
    ) -> Result<Result<Document, MongoError>> {
        if sent == Sent::Write {
            command.insert("writeConcern", doc! { "w": "majority" });
        }
        let database = self.database.clone();
        let run = async move { database.run_command(command).await };
        session.by_itself(sent, run).await
    }
}

fn incomplete() -> Error {
    misconfigured(
        "the collection is missing or not this crate's; run `migrate()` or the printed commands"
            .to_owned(),
    )
}

fn too_new(version: i64) -> Error {
    misconfigured(format!(
        "the collection has schema version {version}, this crate knows up to {SCHEMA_VERSION}; upgrade the crate"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_commands_name_the_configured_collection() {
        let config = Config::new()
            .with_database("shop")
            .and_then(|config| config.with_collection("dedup"))
            .unwrap();
        let commands = schema_commands(&config);
        assert!(commands.starts_with("use shop\ndb.createCollection(\"dedup\","));
        assert!(commands.contains("expireAfterSeconds: 0"));
        assert!(!schema_commands(&Config::new()).contains("use "));
    }
}
