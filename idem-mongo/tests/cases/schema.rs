//! Migration and names.

use idem_conformance::migration::{self, is_misconfigured};
use idem_conformance::{Case, CaseResult, Context};
use idem_core::{BoxError, IdempotencyStore};
use idem_mongo::mongodb::bson::{Bson, Document, doc};
use idem_mongo::{MongoStore, schema_commands};
use idem_stores::Adapter;

use super::case;
use crate::support::{self, MongoHarness};

pub(super) const MANY_PROCESSES_MIGRATE_AT_ONCE: Case =
    case(12, "many_processes_migrate_at_once", |cx| {
        Box::pin(many_processes_migrate_at_once(cx))
    });
pub(super) const A_MISSING_COLLECTION_IS_NAMED_WITH_ITS_CURE: Case =
    case(14, "a_missing_collection_is_named_with_its_cure", |cx| {
        Box::pin(a_missing_collection_is_named_with_its_cure(cx))
    });
pub(super) const A_COLLECTION_WITHOUT_INDEXES_IS_REFUSED: Case =
    case(11, "a_collection_without_indexes_is_refused", |cx| {
        Box::pin(a_collection_without_indexes_is_refused(cx))
    });
pub(super) const A_COLLATION_IS_REFUSED: Case = case(10, "a_collation_is_refused", |cx| {
    Box::pin(a_collation_is_refused(cx))
});
pub(super) const WHAT_MAY_REFUSE_OR_DELETE_RECORDS_IS_REFUSED: Case =
    case(11, "what_may_refuse_or_delete_records_is_refused", |cx| {
        Box::pin(what_may_refuse_or_delete_records_is_refused(cx))
    });
pub(super) const VERIFY_CHANGES_NOTHING: Case = case(15, "verify_changes_nothing", |cx| {
    Box::pin(verify_changes_nothing(cx))
});
pub(super) const A_LATER_SCHEMA_IS_REFUSED: Case = case(11, "a_later_schema_is_refused", |cx| {
    Box::pin(a_later_schema_is_refused(cx))
});
pub(super) const THE_INDEXES_ARE_AS_PRINTED: Case = case(8, "the_indexes_are_as_printed", |cx| {
    Box::pin(the_indexes_are_as_printed(cx))
});

/// Returns the result of a child process that was started to migrate the database of its job.
pub(crate) fn migrate_as_child() -> Option<Result<(), BoxError>> {
    migration::migrate_as_child(async |namespace| {
        let harness = MongoHarness::from_environment().map_err(|missing| missing.to_string())?;
        let store = harness.store(&namespace).await?;
        store.migrate().await?;
        Ok(store.verify().await?)
    })
}

async fn many_processes_migrate_at_once(cx: &Context) -> CaseResult {
    let harness = support::harness()?;
    let namespace = format!("{}_new", cx.namespace());
    let migrated = migration::sixteen_processes(&namespace).await;
    let verified = harness.store(&namespace).await?.verify().await;
    harness.destroy(&namespace).await?;
    migrated?;
    Ok(verified?)
}

/// Returns a store on another collection of the case's database.
async fn store_on(cx: &Context, collection: &str) -> CaseResult<MongoStore> {
    let harness = support::harness()?;
    let config = harness
        .config(cx.namespace())?
        .with_collection(collection)?;
    let client = harness.store(cx.namespace()).await?.client().clone();
    Ok(MongoStore::with_config(client, config))
}

async fn a_missing_collection_is_named_with_its_cure(cx: &Context) -> CaseResult {
    let store = store_on(cx, "missing").await?;
    let request = cx.request(&cx.key("one"));
    let errors = [
        store.verify().await.unwrap_err(),
        store.claim(&request).await.unwrap_err(),
        store.get(request.key()).await.unwrap_err(),
        store.delete_expired(1).await.unwrap_err(),
    ];
    for error in errors {
        is_misconfigured(&error, "migrate()");
    }
    let database = support::harness()?.database(cx.namespace()).await?;
    let names = database.list_collection_names().await?;
    assert!(!names.contains(&"missing".to_owned()), "it was created");
    store.migrate().await?;
    assert!(store.claim(&request).await?.acquired().is_some());
    assert_eq!(cx.store().get(request.key()).await?, None, "another one");
    Ok(())
}

/// MongoDB creates a missing collection at a write, without the index by which expired records are
/// deleted.
async fn a_collection_without_indexes_is_refused(cx: &Context) -> CaseResult {
    let database = support::harness()?.database(cx.namespace()).await?;
    database.create_collection("bare").await?;
    let store = store_on(cx, "bare").await?;
    let error = store.claim(&cx.request(&cx.key("one"))).await.unwrap_err();
    is_misconfigured(&error, "migrate()");
    store.migrate().await?;
    drop(store.claim(&cx.request(&cx.key("one"))).await?);
    Ok(())
}

/// Under a collation, keys that differ only in case would be equal.
async fn a_collation_is_refused(cx: &Context) -> CaseResult {
    let database = support::harness()?.database(cx.namespace()).await?;
    let collation = doc! { "locale": "en", "strength": 2 };
    let create = doc! { "create": "collated", "collation": collation };
    database.run_command(create).await?;
    let store = store_on(cx, "collated").await?;
    for error in [
        store.migrate().await.unwrap_err(),
        store.verify().await.unwrap_err(),
        store.claim(&cx.request(&cx.key("one"))).await.unwrap_err(),
    ] {
        is_misconfigured(&error, "collation");
    }
    Ok(())
}

async fn what_may_refuse_or_delete_records_is_refused(cx: &Context) -> CaseResult {
    let database = support::harness()?.database(cx.namespace()).await?;
    let own = |name: &str| doc! { "name": name, "key": { "token": 1 } };
    let mut unique = own("theirs");
    unique.insert("unique", true);
    let mut expiring = doc! { "name": "theirs", "key": { "at": 1 } };
    expiring.insert("expireAfterSeconds", 60);
    for (name, index) in [("unique", unique), ("expiring", expiring)] {
        let store = store_on(cx, name).await?;
        store.migrate().await?;
        store.verify().await?;
        let create = doc! { "createIndexes": name, "indexes": [index] };
        database.run_command(create).await?;
        is_misconfigured(&store.verify().await.unwrap_err(), "`theirs`");
        let drop = doc! { "dropIndexes": name, "index": "theirs" };
        database.run_command(drop).await?;
        store.verify().await?;
    }
    let validator = doc! { "token": { "$type": "string" } };
    let create = doc! { "create": "validated", "validator": validator };
    database.run_command(create).await?;
    let store = store_on(cx, "validated").await?;
    is_misconfigured(&store.verify().await.unwrap_err(), "validator");
    is_misconfigured(&store.migrate().await.unwrap_err(), "validator");
    Ok(())
}

/// It tries each kind of write, and none leaves anything.
async fn verify_changes_nothing(cx: &Context) -> CaseResult {
    let watch = support::Watch::default();
    let harness = support::harness()?;
    let store = watch
        .store(&harness, harness.config(cx.namespace())?)
        .await?;
    let database = harness.database(cx.namespace()).await?;
    let records = database.collection::<Document>("idem_records");
    let before = records.find_one(doc! { "_id": "idem" }).await?;
    store.verify().await?;
    let sent = watch.take(&["update", "findAndModify", "delete"]);
    assert_eq!(sent.len(), 6, "{sent:?}");
    for command in sent {
        let concern = command.get_document("writeConcern")?;
        assert_eq!(concern.get_str("w")?, "majority", "{command}");
    }
    assert_eq!(before, records.find_one(doc! { "_id": "idem" }).await?);
    assert_eq!(records.count_documents(doc! {}).await?, 1);
    Ok(())
}

async fn a_later_schema_is_refused(cx: &Context) -> CaseResult {
    let database = support::harness()?.database(cx.namespace()).await?;
    let records = database.collection::<Document>("idem_records");
    let later = doc! { "$set": { "schema_version": 2 } };
    let updated = records.update_one(doc! { "_id": "idem" }, later).await?;
    assert_eq!(updated.matched_count, 1);
    let store = store_on(cx, "idem_records").await?;
    for error in [
        store.migrate().await.unwrap_err(),
        store.verify().await.unwrap_err(),
        store.claim(&cx.request(&cx.key("one"))).await.unwrap_err(),
    ] {
        is_misconfigured(&error, "upgrade the crate");
    }
    Ok(())
}

async fn the_indexes_are_as_printed(cx: &Context) -> CaseResult {
    let database = support::harness()?.database(cx.namespace()).await?;
    let listed = database
        .run_command(doc! { "listIndexes": "idem_records" })
        .await?;
    let listed = listed.get_document("cursor")?.get_array("firstBatch")?;
    let index = |name: &str| {
        let mut all = listed.iter().filter_map(Bson::as_document);
        all.find(|index| index.get_str("name").is_ok_and(|found| found == name))
    };
    let printed = schema_commands(&idem_mongo::Config::new());
    let purge = index("idem_purge_at").expect("an index for the TTL monitor");
    assert!(purge.get_document("key")?.contains_key("purge_at"));
    let expires = purge.get("expireAfterSeconds").cloned();
    assert!(
        matches!(expires, Some(Bson::Int32(0) | Bson::Int64(0))),
        "{expires:?}"
    );
    assert!(
        printed.contains(r#"{ purge_at: 1 }, { name: "idem_purge_at", expireAfterSeconds: 0 }"#)
    );
    let sweep = index("idem_sweep_at").expect("an index for sweeps");
    assert!(sweep.get_bool("sparse")?);
    assert!(printed.contains(r#"{ sweep_at: 1 }, { name: "idem_sweep_at", sparse: true }"#));
    Ok(())
}
