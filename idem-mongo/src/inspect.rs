//! Checks a collection and its indexes, as the server describes them.

use idem_core::{Effect, Error, ErrorKind, Result};
use mongodb::bson::{Bson, Document};

/// Refuses an unsuitable collection. Only the simple collation compares keys byte for byte, and no
/// document can be deleted from a capped collection.
pub(crate) fn check_collection(collection: &Document) -> Result<()> {
    if collection.get_str("type").unwrap_or("collection") != "collection" {
        return Err(misconfigured(
            "the collection is a view or a time series; give the store a name of its own"
                .to_owned(),
        ));
    }
    let Ok(options) = collection.get_document("options") else {
        return Ok(());
    };
    if let Ok(collation) = options.get_document("collation")
        && !collation
            .get_str("locale")
            .is_ok_and(|locale| locale == "simple")
    {
        return Err(misconfigured(
            "the collection has a collation, under which different keys may be equal; give the store a collection \
             without one"
                .to_owned(),
        ));
    }
    let has_validator = options
        .get_document("validator")
        .is_ok_and(|validator| !validator.is_empty());
    let is_set =
        |option: &str, value: &str| options.get_str(option).is_ok_and(|found| found == value);
    let is_strict = !is_set("validationLevel", "off") && !is_set("validationAction", "warn");
    if has_validator && is_strict {
        return Err(misconfigured(
            "the collection has a validator, which may refuse records; remove it with `collMod`, or give the store a \
             collection of its own"
                .to_owned(),
        ));
    }
    if options.contains_key("expireAfterSeconds") {
        return Err(misconfigured(
            "the collection is clustered and deletes its documents after a time; give the store one without \
             `expireAfterSeconds`"
                .to_owned(),
        ));
    }
    if options.get_bool("capped").unwrap_or(false) {
        return Err(misconfigured(
            "the collection is capped; give the store one that is not".to_owned(),
        ));
    }
    Ok(())
}

/// Returns whether it is this crate's index of the field, under any name.
pub(crate) fn is_index(index: &Document, field: &str) -> bool {
    let keys = index.get_document("key");
    let right = keys.is_ok_and(|keys| keys.len() == 1 && number(keys, field) == Some(1));
    let expires = number(index, "expireAfterSeconds");
    right
        && !index.contains_key("partialFilterExpression")
        && (field != "purge_at" || expires == Some(0))
}

/// Refuses a foreign index that breaks a promise of the store. Under a unique index, the records of
/// two keys may exclude each other. Under a TTL index, the server may delete live records.
pub(crate) fn check_index(index: &Document) -> Result<()> {
    let name = index.get_str("name").unwrap_or("?");
    let keys = index.get_document("key");
    let keys = keys.ok().filter(|keys| keys.len() == 1);
    let is_of = |field: &str| keys.is_some_and(|keys| keys.contains_key(field));
    if index.get_bool("unique").unwrap_or(false) && !is_of("_id") {
        return Err(misconfigured(format!(
            "the unique index `{name}` lets records of different keys meet; drop it"
        )));
    }
    if index.contains_key("expireAfterSeconds") && !is_of("purge_at") {
        return Err(misconfigured(format!(
            "by the index `{name}` the server deletes records that are live; drop it"
        )));
    }
    Ok(())
}

/// Returns whether a server with this greeting has transactions: a member of a replica set, or a
/// `mongos`.
pub(crate) fn has_transactions(hello: &Document) -> bool {
    hello.contains_key("setName") || hello.get_str("msg").is_ok_and(|found| found == "isdbgrid")
}

/// Reads a number of any type: servers and shells write different ones.
pub(crate) fn number(document: &Document, field: &str) -> Option<i64> {
    match document.get(field)? {
        Bson::Int32(number) => Some(i64::from(*number)),
        Bson::Int64(number) => Some(*number),
        Bson::Double(number) if number.fract() == 0.0 => Some(*number as i64),
        _ => None,
    }
}

pub(crate) fn first_batch(answer: &Document) -> impl Iterator<Item = &Document> {
    let batch = answer
        .get_document("cursor")
        .and_then(|cursor| cursor.get_array("firstBatch"));
    let entries = batch.map_or(&[][..], Vec::as_slice);
    entries.iter().filter_map(Bson::as_document)
}

pub(crate) fn misconfigured(message: String) -> Error {
    Error::new(ErrorKind::Misconfigured, Effect::None, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mongodb::bson::doc;

    #[test]
    fn a_collection_under_a_collation_is_refused() {
        let collated = |locale: &str| {
            doc! { "name": "c", "type": "collection", "options": { "collation": { "locale": locale } } }
        };
        assert!(check_collection(&collated("de")).is_err());
        assert!(check_collection(&collated("simple")).is_ok());
        assert!(check_collection(&doc! { "type": "view" }).is_err());
        assert!(check_collection(&doc! { "options": { "capped": true } }).is_err());
        assert!(check_collection(&doc! { "name": "c", "options": {} }).is_ok());
    }

    #[test]
    fn validators_and_indexes_that_threaten_records_are_refused() {
        let with = |options: Document| check_collection(&doc! { "options": options });
        let validator = doc! { "token": { "$type": "string" } };
        assert!(with(doc! { "validator": validator.clone() }).is_err());
        assert!(with(doc! { "validator": validator.clone(), "validationAction": "warn" }).is_ok());
        assert!(with(doc! { "validator": validator, "validationLevel": "off" }).is_ok());
        assert!(with(doc! { "validator": {} }).is_ok());
        assert!(with(doc! { "expireAfterSeconds": 60 }).is_err());
        let index = |key: Document, option: &str, value: Bson| {
            let mut index = doc! { "name": "theirs", "key": key };
            index.insert(option, value);
            check_index(&index)
        };
        assert!(index(doc! { "_id": 1 }, "unique", true.into()).is_ok());
        assert!(index(doc! { "token": 1 }, "unique", true.into()).is_err());
        assert!(index(doc! { "token": 1 }, "unique", false.into()).is_ok());
        assert!(index(doc! { "purge_at": 1 }, "expireAfterSeconds", 0.into()).is_ok());
        let error = index(doc! { "at": 1 }, "expireAfterSeconds", 0.into()).unwrap_err();
        assert!(error.to_string().contains("`theirs`"), "{error}");
    }

    #[test]
    fn an_index_is_recognized_by_its_definition() {
        let index =
            |expires: Bson| doc! { "key": { "purge_at": 1.0 }, "expireAfterSeconds": expires };
        assert!(is_index(&index(0.into()), "purge_at"));
        assert!(!is_index(&index(60.into()), "purge_at"));
        assert!(!is_index(&doc! { "key": { "purge_at": 1 } }, "purge_at"));
        assert!(is_index(&doc! { "key": { "sweep_at": 1_i64 } }, "sweep_at"));
        assert!(!is_index(
            &doc! { "key": { "sweep_at": 1, "b": 1 } },
            "sweep_at"
        ));
    }
}
