//! The statements of one store.

use std::sync::Arc;

use duckdb::types::Value;
use idem_core::{Effect, Error, ErrorKind, Key, Result};
use idem_sql::parameters::{self, Parameter, Placeholder, Values, compile};

use crate::config::Config;
use crate::executor::{BoundStatement, value};
use crate::sql;

/// How many claims one statement inserts at most.
pub(crate) const INSERTED_AT_MOST: usize = 128;

idem_sql::statements! {
    single: Statement, of &str {
        held: sql::HELD,
        acquire: sql::ACQUIRE,
        exhausted: sql::EXHAUSTED,
        abandon: sql::ABANDON,
        seal: sql::SEAL,
        owned: sql::OWNED,
        release: sql::RELEASE,
        renew: sql::RENEW,
        get: sql::GET,
        delete_expired: sql::DELETE_EXPIRED,
        fail_abandoned: sql::FAIL_ABANDONED,
        summary: sql::SUMMARY,
        list: sql::LIST,
        force: sql::FORCE,
        rewrite: sql::REWRITE,
        checkpoint: sql::CHECKPOINT,
        last_checkpoint: sql::LAST_CHECKPOINT,
        raised: sql::RAISED,
        raise: sql::RAISE,
        watermark: sql::WATERMARK,
        delete_expired_watermarks: sql::DELETE_EXPIRED_WATERMARKS,
    }
    + {
        /// For 1 claim, 2, 4 and so on, up to [`INSERTED_AT_MOST`], so that few texts stay
        /// prepared.
        insert_many: Vec<Arc<str>>,
    }
}

idem_sql::statements_by_kind!(Statement);

impl Statements {
    /// Names the tables with database and schema: a caller's connection may have another database
    /// in use, or a temporary table of the same name.
    pub(crate) fn new(config: &Config, database: &str) -> Self {
        let schema = format!("\"{}\".\"main\"", database.replace('"', "\"\""));
        let [table, marks] =
            [config.quoted_table(), config.quoted_marks()].map(|name| format!("{schema}.{name}"));
        let named = |template: &str| {
            let named = template.replace("{table}", &table);
            named.replace("{marks}", &marks)
        };
        let sizes = 0..=INSERTED_AT_MOST.ilog2();
        let insert_many = sizes.map(|power| named(&sql::insert_many(1 << power)).into());
        Self::of(
            |template: &str| Statement::new(&named(template)),
            insert_many.collect(),
        )
    }

    /// Returns the statement that inserts claims with these values, at most [`INSERTED_AT_MOST`].
    pub(crate) fn insert_many(&self, claims: Vec<Vec<Value>>) -> BoundStatement {
        let room = claims.len().next_power_of_two().min(INSERTED_AT_MOST);
        let mut values: Vec<_> = claims.into_iter().flatten().collect();
        // The other rows are no claims.
        values.resize(room * sql::INSERTED.len(), Value::Null);
        let clock = Some(values.len());
        values.push(Value::Null);
        let text = Arc::clone(&self.insert_many[room.ilog2() as usize]);
        BoundStatement {
            text,
            values,
            clock,
        }
    }
}

/// The parameters of a claim in [`Statements::insert_many`], behind the key.
const CLAIM: &[Parameter] = &[
    Parameter::Scope,
    Parameter::Operation,
    Parameter::Id,
    Parameter::Fingerprint,
    Parameter::AttemptId,
    Parameter::Lease,
    Parameter::Retention,
    Parameter::FailsWhenStale,
    Parameter::Metadata,
];

/// Returns the values of a claim in [`Statements::insert_many`].
pub(crate) fn inserted(key: &Key, values: &Values<'_>) -> Result<Vec<Value>> {
    let mut all = vec![Value::Blob(key.path().into_bytes())];
    for bound in &values.of(CLAIM)? {
        all.push(value(bound)?);
    }
    Ok(all)
}

/// One statement: its text with the driver's placeholders, and its parameters in their order.
///
/// Beside the parameters of all stores it may name `{key}`, the key as one value, and `{clock}`.
#[derive(Debug)]
pub(crate) struct Statement {
    text: Arc<str>,
    parameters: Vec<Parameter>,
    has_key: bool,
    has_clock: bool,
}

impl Statement {
    fn new(template: &str) -> Self {
        let (mut text, parameters) = compile(template, Placeholder::Numbered("$"));
        let mut next = parameters.len();
        let mut placed = |name: &str| {
            let is_named = text.contains(name);
            if is_named {
                next += 1;
                // The type cannot always be told from the place.
                let kind = if name == KEY { "BLOB" } else { "BIGINT" };
                text = text.replace(name, &format!("${next}::{kind}"));
            }
            is_named
        };
        let (has_key, has_clock) = (placed(KEY), placed(CLOCK));
        Self {
            text: text.into(),
            parameters,
            has_key,
            has_clock,
        }
    }

    /// Returns the statement with its values.
    ///
    /// # Errors
    ///
    /// `Other` where a value is missing, which is a mistake of this crate's.
    pub(crate) fn with(&self, values: &Values<'_>) -> Result<BoundStatement> {
        let bound = values.of(&self.parameters)?;
        let mut bound: Vec<_> = bound.iter().map(value).collect::<Result<_>>()?;
        if self.has_key {
            bound.push(Value::Blob(path(values)?.into_bytes()));
        }
        let clock = self.has_clock.then_some(bound.len());
        bound.extend(clock.map(|_| Value::Null));
        Ok(BoundStatement {
            text: Arc::clone(&self.text),
            values: bound,
            clock,
        })
    }
}

const KEY: &str = "{key}";
const CLOCK: &str = "{clock}";

/// Returns the key as one text; an empty one where a list begins.
fn path(values: &Values<'_>) -> Result<String> {
    let parts = values.of(&[Parameter::Scope, Parameter::Operation, Parameter::Id])?;
    match &parts[..] {
        [
            parameters::Value::Text(""),
            parameters::Value::Text(""),
            parameters::Value::Text(""),
        ] => Ok(String::new()),
        [
            parameters::Value::Text(scope),
            parameters::Value::Text(operation),
            parameters::Value::Text(id),
        ] => Ok(Key::stored(*scope, *operation, *id)?.path()),
        _ => {
            let message = "the statement's key has no value";
            Err(Error::new(ErrorKind::Other, Effect::None, message))
        }
    }
}
