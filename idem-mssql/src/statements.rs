//! The statements of one store.

use std::time::Duration;

use crate::config::Config;
use crate::sql::{self, FRAGMENTS};

/// The sizes that statements of batches come in, so that the server keeps few plans; a batch takes the next larger one
/// and says how many of its rows count. A request has at most 2,100 parameters, two of which are the driver's:
/// <https://learn.microsoft.com/sql/sql-server/maximum-capacity-specifications-for-sql-server>.
pub(crate) const SIZES: [usize; 3] = [8, 64, 200];

/// The statements with the tables' names put in, shared by all clones of a store.
#[derive(Debug)]
pub(crate) struct Statements {
    pub(crate) claim_by_merge: Statement,
    pub(crate) claim_by_insert: Statement,
    pub(crate) claim_many_by_merge: [Statement; 3],
    pub(crate) claim_many_by_insert: [Statement; 3],
    pub(crate) abandon: Statement,
    pub(crate) seal: Statement,
    pub(crate) complete_many: [Statement; 3],
    pub(crate) owned: Statement,
    pub(crate) release: Statement,
    pub(crate) renew: Statement,
    pub(crate) get: Statement,
    pub(crate) purge: Statement,
    pub(crate) sweep: Statement,
    pub(crate) checkpoint: Statement,
    pub(crate) last_checkpoint: Statement,
    pub(crate) advance: Statement,
    pub(crate) watermark: Statement,
    pub(crate) purge_watermarks: Statement,
    pub(crate) server: Statement,
    pub(crate) babelfish: Statement,
    pub(crate) schema_version: Statement,
}

impl Statements {
    pub(crate) fn new(config: &Config) -> Self {
        let [table, marks] = [config.qualified_table(), config.qualified_marks()];
        let single = |template: &str, values: &[&str]| {
            let text = expand(template, &parameters(values));
            let text = text.replace("{table}", &table).replace("{marks}", &marks);
            Statement::timed(&text, config.timeout())
        };
        let batch = |template: &str, values: &[&str]| {
            let text = expand(template, &columns(values)).replace("{table}", &table);
            let text = text.replace("{names}", &values.join(", "));
            SIZES.map(|size| {
                let text = text.replace("{rows}", &rows(size, values.len()));
                Statement::timed(&text, config.timeout())
            })
        };
        let version_table = config.qualified_version_table();
        Self {
            claim_by_merge: single(sql::CLAIM_BY_MERGE, sql::CLAIM_VALUES),
            claim_by_insert: single(sql::CLAIM_BY_INSERT, sql::CLAIM_VALUES),
            claim_many_by_merge: batch(sql::CLAIM_MANY_BY_MERGE, sql::CLAIM_VALUES),
            claim_many_by_insert: batch(sql::CLAIM_MANY_BY_INSERT, sql::CLAIM_VALUES),
            abandon: single(sql::ABANDON, sql::ABANDON_VALUES),
            seal: single(sql::SEAL, sql::OWNER_VALUES),
            complete_many: batch(sql::COMPLETE_MANY, sql::COMPLETE_VALUES),
            owned: single(sql::OWNED, sql::OWNER_VALUES),
            release: single(sql::RELEASE, sql::OWNER_VALUES),
            renew: single(sql::RENEW, sql::RENEW_VALUES),
            get: single(sql::GET, sql::OWNER_VALUES),
            purge: single(sql::PURGE, sql::BATCH_VALUES),
            sweep: single(sql::SWEEP, sql::BATCH_VALUES),
            checkpoint: single(sql::CHECKPOINT, sql::CHECKPOINT_VALUES),
            last_checkpoint: single(sql::LAST_CHECKPOINT, sql::OWNER_VALUES),
            advance: single(sql::ADVANCE, sql::ADVANCE_VALUES),
            watermark: single(sql::WATERMARK, sql::ADVANCE_VALUES),
            purge_watermarks: single(sql::PURGE_WATERMARKS, sql::BATCH_VALUES),
            server: Statement::plain("SELECT @@VERSION;".to_owned()),
            babelfish: Statement::plain(
                "SELECT CAST(SERVERPROPERTY(N'Babelfish') AS nvarchar(128));".to_owned(),
            ),
            schema_version: Statement::plain(format!(
                "IF OBJECT_ID(N'{version_table}', N'U') IS NOT NULL
SELECT version, CASE WHEN OBJECT_ID(N'{marks}', N'U') IS NULL THEN 0 ELSE 1 END FROM {version_table};"
            )),
        }
    }

    /// The statement of the smallest size that takes so many, and that size.
    pub(crate) fn sized(statements: &[Statement; 3], items: usize) -> (&Statement, usize) {
        let fits = SIZES.iter().position(|size| *size >= items);
        let place = fits.unwrap_or(SIZES.len() - 1);
        (&statements[place], SIZES[place])
    }
}

/// One statement's text. Nothing but the validated names of the tables and numbers were put into it.
#[derive(Debug)]
pub(crate) struct Statement {
    alone: String,
    in_transaction: String,
}

impl Statement {
    /// With the clock. By itself it waits for a lock for nine tenths of the time that the operation has, so that the
    /// server has given up before the client does and can say that nothing was done; in a caller's transaction the
    /// caller's setting stands, which SQL Server would restore and other servers might not.
    fn timed(text: &str, timeout: Duration) -> Self {
        let wait = (timeout.as_millis() / 10 * 9).clamp(1, 0x7fff_ffff);
        let clock = "DECLARE @now bigint = \
                     DATEDIFF_BIG(microsecond, CAST('1970-01-01' AS datetime2), SYSUTCDATETIME());\n";
        Self {
            alone: format!("SET XACT_ABORT ON;\nSET LOCK_TIMEOUT {wait};\n{clock}{text}"),
            in_transaction: format!("SET XACT_ABORT ON;\n{clock}{text}"),
        }
    }

    fn plain(text: String) -> Self {
        Self {
            in_transaction: text.clone(),
            alone: text,
        }
    }

    /// As it is sent on a connection of the pool.
    pub(crate) fn alone(&self) -> &str {
        &self.alone
    }

    /// As it is sent in a caller's transaction.
    pub(crate) fn in_transaction(&self) -> &str {
        &self.in_transaction
    }
}

/// `@P1` for the first value, and so on.
fn parameters(values: &[&str]) -> Vec<(String, String)> {
    let numbered = values.iter().enumerate();
    numbered
        .map(|(index, name)| ((*name).to_owned(), format!("@P{}", index + 1)))
        .collect()
}

/// The columns of the rows of a batch.
fn columns(values: &[&str]) -> Vec<(String, String)> {
    let named = values.iter();
    named
        .map(|name| ((*name).to_owned(), format!("s.{name}")))
        .collect()
}

/// The rows of a batch, each with its number: `(0, @P2, …), (1, …)`.
fn rows(size: usize, values: usize) -> String {
    let row = |number: usize| {
        let first = 2 + number * values;
        format!(
            "({number}, {})",
            tiberius::Query::placeholders(first, values)
        )
    };
    (0..size).map(row).collect::<Vec<_>>().join(",\n        ")
}

/// Puts fragments and values in, fragments of fragments too. Names that are neither stay.
fn expand(template: &str, values: &[(String, String)]) -> String {
    let mut text = template.to_owned();
    for (name, fragment) in FRAGMENTS.iter().rev() {
        // `{name}` and `{name r.}`
        while let Some(start) = text.find(&format!("{{{name} ")) {
            let Some(length) = text[start..].find('}') else {
                break;
            };
            let row = text[start + name.len() + 2..start + length].to_owned();
            text.replace_range(start..=start + length, &fragment.replace("{r}", &row));
        }
        text = text.replace(&format!("{{{name}}}"), fragment);
    }
    for (name, value) in values {
        text = text.replace(&format!("{{{name}}}"), value);
    }
    text
}
