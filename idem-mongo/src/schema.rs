//! The collection, its indexes, and their creation.

use std::sync::atomic::Ordering;

use idem_core::{Effect, Error, Result};
use mongodb::bson::{Document, doc};
use mongodb::error::Error as MongoError;

use crate::codes::is_not_known;
use crate::config::Config;
use crate::error::{Access, classify, code};
use crate::inspect::{
    check_collection, check_index, first_batch, has_transactions, is_index, misconfigured, number,
};
use crate::operations::Operations;
use crate::session::Session;
use crate::store::{BACKEND, MongoStore};

/// The version of the schema that this crate works with.
pub const SCHEMA_VERSION: u32 = 1;

/// The `_id` of the document that holds the version. It equals no key's `_id`, which has two
/// colons.
const VERSION_ID: &str = "idem";

/// The wire version of MongoDB 5.0:
/// <https://github.com/mongodb/specifications/blob/master/source/wireversion-featurelist/wireversion-featurelist.md>.
const MIN_WIRE_VERSION: i64 = 13;

const NAMESPACE_EXISTS: i32 = 48;
const NAMESPACE_NOT_FOUND: i32 = 26;

const PURGE_INDEX: &str = "idem_purge_at";
const SWEEP_INDEX: &str = "idem_sweep_at";

/// Returns the script for operators to run in `mongosh`; [`MongoStore::migrate`] does the same.
///
/// It may run any number of times, except the lines that create a collection, which fail when it
/// exists.
///
/// A record's document; numbers are 64-bit integers:
///
/// ```text
/// {
///   _id: "tenant-7:payments.create:order-1",  // scope:operation:id, percent-escaped where they contain % : { }
///   state: 1,             // 0 in flight, 1 completed, 2 failed, 3 released
///   token, attempts,      // fencing token of the latest acquisition; acquisitions since the key was fresh
///   fingerprint, attempt_id,                  // binary
///   created_at, lease_ends_at, expires_at,    // microseconds since 1970 in UTC; expires_at is 0 when released
///   sealed_at, renewed_at, sweep_at,          // where they apply; sweep_at: in flight and not to be taken over
///   purge_at,             // a date, a minute after expires_at, for the TTL index
///   metadata, result,     // JSON; binary
///   checkpoint            // binary; in flight only, and only if the work has stored one
/// }
/// ```
///
/// A watermark is `{ _id: "scope:operation:id", version, writer, expires_at, purge_at }`; `writer`
/// is the random id of the advance that raised it. `{ _id: "idem", schema_version: 1 }` stands
/// beside the records. The TTL monitor runs each minute and deletes a record one minute after its
/// retention at the earliest, so that members may differ by that.
#[must_use]
pub fn schema_commands(config: &Config) -> String {
    let (name, marks) = (config.collection(), config.watermarks());
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
db.createCollection("{marks}", {{ collation: {{ locale: "simple" }} }})
db.getCollection("{marks}").createIndex({{ purge_at: 1 }}, {{ name: "{PURGE_INDEX}", expireAfterSeconds: 0 }})
// Where they are to be sharded: sh.shardCollection(db.getName() + ".{name}", {{ _id: "hashed" }})
//                               sh.shardCollection(db.getName() + ".{marks}", {{ _id: "hashed" }})
"#
    )
}

impl MongoStore {
    /// Creates the collections of the records and the watermarks and their indexes if they are
    /// missing, and checks server and version. It is safe when many processes start at once, and
    /// changes nothing when nothing is missing.
    ///
    /// The user needs `readWrite` on the database, as for everything else.
    ///
    /// *Atomicity*: step by step, each repeatable; the version is written last.
    ///
    /// # Errors
    ///
    /// `Misconfigured` when the server is older than MongoDB 5.0 or lacks a feature of it, which the
    /// message names, or when the collection is unsuitable. It must not have a collation, be capped, a view or a time series, have other
    /// indexes under the same names, or have a later version. `Unavailable` as usual.
    ///
    /// # Cancellation
    ///
    /// Some steps may have happened; run it again.
    pub async fn migrate(&self) -> Result<()> {
        let at = |error: Error| error.at(BACKEND, "migrate");
        self.operations.migrate(&self.session()).await.map_err(at)
    }

    /// Checks that this crate supports the server, and that the collections exist in the right form
    /// and version. Checks that no foreign validator or index refuses or deletes records. Checks,
    /// with statements that change nothing, that the user may write and that the write concern can
    /// be met.
    ///
    /// # Errors
    ///
    /// `Misconfigured`, with instructions; `Unavailable` as usual, also on a member that is not
    /// primary.
    pub async fn verify(&self) -> Result<()> {
        let at = |error: Error| error.at(BACKEND, "verify");
        let (operations, session) = (&self.operations, self.session());
        operations.check_features(&session).await.map_err(at)?;
        operations.verify(&session).await.map_err(at)?;
        operations.try_writes(&session).await.map_err(at)
    }
}

/// The existing parts of the schema.
enum Existing {
    All,
    Part,
}

impl Operations {
    async fn migrate(&self, session: &Session<'_>) -> Result<()> {
        self.check_features(session).await?;
        if let Existing::Part = self.inspect_watermarks(session).await? {
            self.create(
                session,
                self.watermarks.collection.name(),
                vec![purge_index()],
            )
            .await?;
        }
        if let Existing::Part = self.inspect_records(session).await? {
            let indexes = vec![purge_index(), sweep_index()];
            self.create(session, self.records.collection.name(), indexes)
                .await?;
            self.write_version(session).await?;
        }
        self.verify(session).await
    }

    /// Creates the collection, if it is missing, and its indexes. Before it creates indexes, it
    /// refuses an unsuitable collection.
    async fn create(
        &self,
        session: &Session<'_>,
        name: &str,
        indexes: Vec<Document>,
    ) -> Result<()> {
        let simple = doc! { "create": name, "collation": { "locale": "simple" } };
        match self.command(session, simple, Access::Write).await {
            Ok(Err(error)) if code(&error) == Some(NAMESPACE_EXISTS) => {}
            done => drop(done?.map_err(|error| lacking("the option `collation`", error))?),
        }
        self.indexes_of(session, name).await?;
        let create = doc! { "createIndexes": name, "indexes": indexes };
        let created = self.command(session, create, Access::Write).await?;
        let of_dates = "a TTL index on a field with dates (`purge_at`)";
        created.map(drop).map_err(|error| lacking(of_dates, error))
    }

    async fn verify(&self, session: &Session<'_>) -> Result<()> {
        self.verify_records(session).await?;
        self.verify_watermarks(session).await
    }

    /// Sends one statement of each kind that records need, with the store's own write concern. None
    /// changes anything: an upsert of the existing version, and an update and a deletion of a
    /// version that no collection has.
    async fn try_writes(&self, session: &Session<'_>) -> Result<()> {
        self.write_version(session).await?;
        for collection in [&self.records.collection, &self.watermarks.collection] {
            let none = doc! { "_id": VERSION_ID, "schema_version": -1 };
            let (updated, filter) = (collection.clone(), none.clone());
            let update = move || {
                let (updated, filter) = (updated.clone(), filter.clone());
                let update = vec![doc! { "$set": { "schema_version": -1 } }];
                async move { updated.find_one_and_update(filter, update).await }
            };
            session.again(update).await.map_err(in_vain)?;
            let deleted = collection.clone();
            let delete = move || {
                let (deleted, filter) = (deleted.clone(), none.clone());
                async move { deleted.delete_many(filter).await }
            };
            session.again(delete).await.map_err(in_vain)?;
        }
        Ok(())
    }

    pub(crate) async fn verify_records(&self, session: &Session<'_>) -> Result<()> {
        self.check_server(session).await?;
        match self.inspect_records(session).await? {
            Existing::All => Ok(()),
            Existing::Part => Err(incomplete()),
        }
    }

    pub(crate) async fn verify_watermarks(&self, session: &Session<'_>) -> Result<()> {
        self.check_server(session).await?;
        match self.inspect_watermarks(session).await? {
            Existing::All => Ok(()),
            Existing::Part => Err(incomplete()),
        }
    }

    /// Refuses a server that is too old. `hello` needs no privilege, and servers compatible with
    /// MongoDB return its wire version, too.
    async fn check_server(&self, session: &Session<'_>) -> Result<()> {
        let hello = self.reading(session, doc! { "hello": 1 }).await?;
        if has_transactions(&hello) {
            self.has_transactions.store(true, Ordering::Relaxed);
        }
        let version = number(&hello, "maxWireVersion").unwrap_or(0);
        if version < MIN_WIRE_VERSION {
            return Err(misconfigured(format!(
                "the server speaks wire version {version}; MongoDB 5.0 ({MIN_WIRE_VERSION}) or later is needed"
            )));
        }
        Ok(())
    }

    /// Refuses a server that is only compatible with MongoDB and lacks what statements of this crate
    /// consist of, whatever version it reports:
    /// <https://docs.aws.amazon.com/documentdb/latest/developerguide/mongo-apis.html>,
    /// <https://learn.microsoft.com/azure/cosmos-db/mongodb/feature-support-50>. The probes match no
    /// document.
    async fn check_features(&self, session: &Session<'_>) -> Result<()> {
        self.check_server(session).await?;
        let name = self.records.collection.name();
        let none = doc! { "_id": VERSION_ID, "schema_version": -1 };
        let now = doc! { "$set": { "schema_version": "$$NOW" } };
        let read = [doc! { "$match": &none }, now];
        let read = doc! { "aggregate": name, "pipeline": &read[..], "cursor": {} };
        let updates = [doc! { "$set": { "schema_version": -1 } }];
        let update = doc! { "findAndModify": name, "query": none, "update": &updates[..] };
        for (feature, probe, sent) in [
            ("the clock `$$NOW` in a pipeline", read, Access::Read),
            ("an update by a pipeline", update, Access::Write),
        ] {
            let done = self.command(session, probe, sent).await?;
            done.map_err(|error| in_vain(lacking(feature, error)))?;
        }
        Ok(())
    }

    /// Returns the existing parts; an error when they are unsuitable.
    async fn inspect_records(&self, session: &Session<'_>) -> Result<Existing> {
        let Some(indexes) = self
            .indexes_of(session, self.records.collection.name())
            .await?
        else {
            return Ok(Existing::Part);
        };
        let has = |field: &str| indexes.iter().any(|index| is_index(index, field));
        let indexed = has("purge_at") && has("sweep_at");
        match self.version(session).await? {
            Some(version) if version > i64::from(SCHEMA_VERSION) => Err(too_new(version)),
            Some(version) if indexed && version == i64::from(SCHEMA_VERSION) => Ok(Existing::All),
            _ => Ok(Existing::Part),
        }
    }

    async fn inspect_watermarks(&self, session: &Session<'_>) -> Result<Existing> {
        let indexes = self
            .indexes_of(session, self.watermarks.collection.name())
            .await?;
        let indexed = indexes
            .iter()
            .flatten()
            .any(|index| is_index(index, "purge_at"));
        Ok(if indexed {
            Existing::All
        } else {
            Existing::Part
        })
    }

    /// Returns the indexes of a suitable collection; `None` when it is missing.
    async fn indexes_of(&self, session: &Session<'_>, name: &str) -> Result<Option<Vec<Document>>> {
        let list = doc! { "listCollections": 1, "filter": { "name": name } };
        let listed = self.reading(session, list).await?;
        let Some(collection) = first_batch(&listed).next() else {
            return Ok(None);
        };
        check_collection(collection)?;
        let list = doc! { "listIndexes": name };
        match self.command(session, list, Access::Read).await? {
            Ok(indexes) => {
                let indexes: Vec<_> = first_batch(&indexes).cloned().collect();
                indexes.iter().try_for_each(check_index)?;
                Ok(Some(indexes))
            }
            Err(error) if code(&error) == Some(NAMESPACE_NOT_FOUND) => Ok(None),
            Err(error) => Err(classify(error, Access::Read)),
        }
    }

    async fn version(&self, session: &Session<'_>) -> Result<Option<i64>> {
        let collection = self.records.collection.clone();
        let read = async move { collection.find_one(doc! { "_id": VERSION_ID }).await };
        let found = session.by_itself(Access::Read, read).await?;
        let found = found.map_err(|error| classify(error, Access::Read))?;
        Ok(found.and_then(|found| number(&found, "schema_version")))
    }

    /// Writes the version, if it is missing. Of concurrent callers, one inserts it.
    async fn write_version(&self, session: &Session<'_>) -> Result<()> {
        let version = i32::try_from(SCHEMA_VERSION).unwrap_or(i32::MAX);
        let update = doc! { "$setOnInsert": { "schema_version": version } };
        let upsert = || {
            let (collection, update) = (self.records.collection.clone(), update.clone());
            async move {
                let upsert = collection.update_one(doc! { "_id": VERSION_ID }, update);
                upsert.upsert(true).await
            }
        };
        session.again(upsert).await.map(drop)
    }

    async fn reading(&self, session: &Session<'_>, command: Document) -> Result<Document> {
        let done = self.command(session, command, Access::Read).await?;
        done.map_err(|error| classify(error, Access::Read))
    }

    async fn command(
        &self,
        session: &Session<'_>,
        mut command: Document,
        sent: Access,
    ) -> Result<Result<Document, MongoError>> {
        if sent == Access::Write {
            command.insert("writeConcern", doc! { "w": "majority" });
        }
        let database = self.database.clone();
        let run = async move { database.run_command(command).await };
        session.by_itself(sent, run).await
    }
}

/// Returns the error of a server that does not know this feature, or that has another reason.
fn lacking(feature: &str, error: MongoError) -> Error {
    if !code(&error).is_some_and(is_not_known) {
        return classify(error, Access::Write);
    }
    misconfigured(format!(
        "the server lacks {feature}, which MongoDB 5.0 has; Amazon DocumentDB and Azure Cosmos DB for MongoDB do not \
         suffice"
    ))
    .with_source(error)
}

/// Returns the error of a statement that cannot have changed anything.
fn in_vain(error: Error) -> Error {
    error.with_effect(Effect::None)
}

fn purge_index() -> Document {
    doc! { "key": { "purge_at": 1 }, "name": PURGE_INDEX, "expireAfterSeconds": 0 }
}

fn sweep_index() -> Document {
    doc! { "key": { "sweep_at": 1 }, "name": SWEEP_INDEX, "sparse": true }
}

fn incomplete() -> Error {
    misconfigured(
        "the collection, or that of the watermarks, is missing or not this crate's; run `migrate()` or the printed commands"
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
