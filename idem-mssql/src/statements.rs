//! The statements of one store.

use std::borrow::Cow;
use std::time::Duration;

use idem_core::backend::MAX_LOCK_WAIT;
use idem_sql::parameters::{Parameter, Placeholder, compile};

use crate::config::Config;
use crate::sql::{self, FRAGMENTS};

/// The sizes of batch statements, few so that the server keeps few plans. A batch takes the next
/// larger one and says how many of its rows count. A request has at most 2,100 parameters, two of
/// which are the driver's:
/// <https://learn.microsoft.com/sql/sql-server/maximum-capacity-specifications-for-sql-server>.
pub(crate) const SIZES: [usize; 3] = [8, 64, 200];

/// A batch's template, and the parameters of each of its rows.
type Template = (&'static str, &'static [Parameter]);

idem_sql::statements! {
    single: Statement, of &str {
        claim_by_merge: sql::CLAIM_BY_MERGE,
        claim_by_rows: sql::CLAIM_BY_ROWS,
        claim_by_insert: sql::CLAIM_BY_INSERT,
        lookup: sql::LOOKUP,
        lookup_at_mark: sql::LOOKUP_AT_MARK,
        probe: sql::PROBE,
        abandon: sql::ABANDON,
        seal: sql::SEAL,
        owned: sql::OWNED,
        release: sql::RELEASE,
        renew: sql::RENEW,
        get: sql::GET,
        summary: sql::SUMMARY,
        list: sql::LIST,
        force: sql::FORCE,
        rewrite: sql::REWRITE,
        checkpoint: sql::CHECKPOINT,
        last_checkpoint: sql::LAST_CHECKPOINT,
        advance: sql::ADVANCE,
        watermark: sql::WATERMARK,
    }
    patient: Statement, of &str {
        delete_expired: sql::DELETE_EXPIRED,
        fail_abandoned: sql::FAIL_ABANDONED,
        delete_expired_watermarks: sql::DELETE_EXPIRED_WATERMARKS,
    }
    batch: [Statement; 3], of Template {
        claim_many_by_merge: (sql::CLAIM_MANY_BY_MERGE, sql::CLAIM_VALUES),
        claim_many_by_rows: (sql::CLAIM_MANY_BY_ROWS, sql::CLAIM_VALUES),
        claim_many_by_insert: (sql::CLAIM_MANY_BY_INSERT, sql::CLAIM_VALUES),
        finish_many: (sql::FINISH_MANY, sql::FINISH_VALUES),
    }
    plain: Statement, of &str {
        server: "SELECT @@VERSION;",
        babelfish: "SELECT CAST(SERVERPROPERTY(N'Babelfish') AS nvarchar(128));",
    }
}

idem_sql::statements_by_kind!(Statement);

impl Statements {
    pub(crate) fn new(config: &Config) -> Self {
        let tables = [
            ("{table}", config.qualified_table()),
            ("{marks}", config.qualified_marks()),
        ];
        let text = |template: &str, values: &[(String, String)]| {
            let text = expand(template, values);
            let named = |text: String, (placeholder, name): &(&str, String)| {
                text.replace(placeholder, name)
            };
            tables.iter().fold(text, named)
        };
        // Nine tenths, so that the server gives up before the client does.
        let longest = config.timeout() / 10 * 9;
        let wait = MAX_LOCK_WAIT.min(longest);
        Self::of(
            |template| Statement::timed(&text(template, &[]), wait),
            // Statements that skip locked rows. On servers that do not skip them, only one caller
            // waits: a maintenance timer.
            |template| Statement::timed(&text(template, &[]), longest),
            |(template, parameters)| {
                let text = text(template, &columns(parameters));
                let names: Vec<_> = parameters.iter().map(|each| each.name()).collect();
                let text = text.replace("{names}", &names.join(", "));
                SIZES.map(|size| {
                    let text = text.replace("{rows}", &rows(size, parameters.len()));
                    Statement {
                        parameters: parameters.to_vec(),
                        ..Statement::timed(&text, wait)
                    }
                })
            },
            |template| Statement::plain(text(template, &[])),
        )
    }

    /// Returns the statement of the smallest size with room for `items`, and that size.
    pub(crate) fn sized(statements: &[Statement; 3], items: usize) -> (&Statement, usize) {
        let fits = SIZES.iter().position(|size| *size >= items);
        let index = fits.unwrap_or(SIZES.len() - 1);
        (&statements[index], SIZES[index])
    }
}

/// One statement's text. Only the validated names of the tables and numbers were put into it.
#[derive(Debug)]
pub(crate) struct Statement {
    text: String,
    /// The parameters in the order of their numbers; of a batch, those of each row.
    pub(crate) parameters: Vec<Parameter>,
    /// How long the statement waits for a lock when it runs by itself; `None`: by the session's
    /// setting, for statements that wait for no lock.
    wait: Option<Duration>,
}

/// Whether a statement waits for a lock that another transaction holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// For as long as the statement says.
    Shortly,
    /// The lock is known to be held, or another caller of this process waits for it.
    Not,
}

/// The settings that change what a statement of the store's own means or does, on any connection. A
/// transaction that begins by itself (`IMPLICIT_TRANSACTIONS`) would never be committed, `ROWCOUNT`
/// would end a batch early. SQL Server restores the settings of `sp_executesql` at its end:
/// <https://learn.microsoft.com/sql/t-sql/statements/set-statements-transact-sql#considerations>.
pub(crate) const SETTINGS: &str = "SET IMPLICIT_TRANSACTIONS OFF;
SET ROWCOUNT 0;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
";

/// Ends a request that writes at its first error, in a caller's transaction too.
pub(crate) const END_AT_AN_ERROR: &str = "SET XACT_ABORT ON;
";

/// Before a statement in a caller's transaction on Babelfish, which keeps a request's settings.
const SAVE: &str = "DECLARE @lock_timeout int = @@LOCK_TIMEOUT, @options int = @@OPTIONS;
";

/// After that statement: restores the caller's settings. `SET LOCK_TIMEOUT` takes no variable.
const RESTORE: &str = "DECLARE @restore nvarchar(11) = CAST(@lock_timeout AS nvarchar(11));
SET @restore = set_config('babelfishpg_tsql.lock_timeout', @restore, false);
IF @options & 16384 = 0
BEGIN
SET XACT_ABORT OFF;
END;
";

/// Microseconds since 1970 by the server's clock. The text of the date is read the same under every
/// DATEFORMAT and LANGUAGE, as it is for `datetime2` anyway.
const CLOCK: &str = "DECLARE @now bigint = \
                     DATEDIFF_BIG(microsecond, CAST('1970-01-01' AS datetime2), SYSUTCDATETIME());\n";

impl Statement {
    /// Creates a statement with the clock. It waits up to `wait` for a lock, so that the server
    /// gives up before the client does and reports that nothing was done.
    fn timed(template: &str, wait: Duration) -> Self {
        let (text, parameters) = compile(template, Placeholder::Numbered("@P"));
        Self {
            text: format!("{CLOCK}{text}"),
            parameters,
            wait: Some(wait),
        }
    }

    pub(crate) fn plain(text: String) -> Self {
        Self {
            text,
            parameters: Vec::new(),
            wait: None,
        }
    }

    /// Returns the text for a connection of the pool.
    pub(crate) fn alone(&self, wait: Wait) -> Cow<'_, str> {
        let text = &self.text;
        Cow::Owned(match self.millis(wait) {
            Some(millis) => {
                format!("{END_AT_AN_ERROR}{SETTINGS}SET LOCK_TIMEOUT {millis};\n{text}")
            }
            None => format!("{SETTINGS}{text}"),
        })
    }

    /// Returns the text for a caller's transaction.
    pub(crate) fn in_transaction(&self, wait: Wait) -> Cow<'_, str> {
        let Some(millis) = self.millis(wait) else {
            return Cow::Borrowed(&self.text);
        };
        let text = &self.text;
        Cow::Owned(format!(
            "{END_AT_AN_ERROR}SET LOCK_TIMEOUT {millis};\n{text}"
        ))
    }

    /// Returns the same for Babelfish.
    pub(crate) fn in_transaction_on_babelfish(&self, wait: Wait) -> Cow<'_, str> {
        let Some(millis) = self.millis(wait) else {
            return Cow::Borrowed(&self.text);
        };
        let text = &self.text;
        Cow::Owned(format!(
            "{SAVE}{END_AT_AN_ERROR}SET LOCK_TIMEOUT {millis};\n{text}{RESTORE}"
        ))
    }

    /// Returns the wait in milliseconds; 0 stands for no wait at all.
    fn millis(&self, wait: Wait) -> Option<u128> {
        let longest = self.wait?.as_millis().clamp(1, 0x7fff_ffff);
        Some(match wait {
            Wait::Shortly => longest,
            Wait::Not => 0,
        })
    }
}

/// Names the columns of the rows of a batch.
fn columns(parameters: &[Parameter]) -> Vec<(String, String)> {
    let names = parameters.iter().map(|parameter| parameter.name());
    names
        .map(|name| (name.to_owned(), format!("s.{name}")))
        .collect()
}

/// Returns the rows of a batch, each with its number: `(0, @P2, …), (1, …)`.
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

/// Fills in fragments and columns, fragments of fragments too. Other names stay.
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
