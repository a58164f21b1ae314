//! PostgreSQL: logical decoding by `test_decoding`, which comes with the server.
//!
//! `REPLICA IDENTITY FULL` makes the log have every column of a changed row. A losing
//! `ON CONFLICT DO NOTHING` leaves no change in it.

use idem_core::BoxError;
use idem_postgres::sqlx::{Row as _, query};
use idem_stores::Postgres;

use super::Change;
use super::columns::{Columns, Value, key, row};

const SLOT: &str = "idem_trace";

pub(super) async fn begin(adapter: &Postgres, namespace: &str) -> Result<(), BoxError> {
    let full = format!("ALTER TABLE \"{namespace}\".idem_records REPLICA IDENTITY FULL");
    adapter.execute(full).await?;
    let slot = format!("SELECT pg_create_logical_replication_slot('{SLOT}', 'test_decoding')");
    adapter.execute(slot).await
}

/// Each transaction is a line that begins it, its changes, and a line with the instant of the commit,
/// which the server itself reads.
const CHANGES: &str = "SELECT lsn::text, data,
    (extract(epoch FROM (regexp_match(data, '^COMMIT \\d+ \\(at (.*)\\)$'))[1]::timestamptz)
        * 1000000)::bigint
    FROM pg_logical_slot_get_changes($1, NULL, NULL, 'include-timestamp', 'on')";

pub(super) async fn changes(adapter: &Postgres, namespace: &str) -> Result<Vec<Change>, BoxError> {
    let mut connection = adapter.connect().await?;
    let lines = query(CHANGES).bind(SLOT).fetch_all(&mut connection).await?;
    let table = format!("table {namespace}.idem_records: ");
    let (mut changes, mut open) = (Vec::new(), 0);
    for line in lines {
        let (at, data): (String, String) = (line.try_get(0)?, line.try_get(1)?);
        if let Some(now) = line.try_get::<Option<i64>, _>(2)? {
            let of_transaction: &mut [Change] = &mut changes[open..];
            for change in of_transaction {
                change.now = Some(now);
            }
            open = changes.len();
        } else if let Some(change) = data.strip_prefix(&table) {
            changes.push(parse(at, change)?);
        }
    }
    Ok(changes)
}

/// Reads `UPDATE: old-key: token[bigint]:7 … new-tuple: token[bigint]:8 …`.
fn parse(at: String, text: &str) -> Result<Change, BoxError> {
    let (kind, tuples) = text.split_once(": ").ok_or("a change without a kind")?;
    let (old, new) = tuples_of(tuples)?;
    let deleted = kind == "DELETE";
    Ok(Change {
        at,
        k: key(if deleted { &old } else { &new })?,
        now: None,
        row: (!deleted).then(|| row(&new)).transpose()?,
    })
}

/// Returns the columns before and after the change; both are the same where there is one only. A
/// large value that did not change is only in the first.
fn tuples_of(text: &str) -> Result<(Columns, Columns), BoxError> {
    let (mut old, mut new) = (Columns::new(), Columns::new());
    let (mut rest, mut is_old) = (text, false);
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("old-key: ") {
            (rest, is_old) = (after, true);
        } else if let Some(after) = rest.strip_prefix("new-tuple: ") {
            (rest, is_old) = (after, false);
        }
        let (name, after) = rest.split_once('[').ok_or("a column without a type")?;
        let (_, after) = after.split_once("]:").ok_or("a column without a value")?;
        let (value, after) = value(after)?;
        let name = name.trim_matches('"').to_owned();
        match value {
            Some(value) if is_old => drop(old.insert(name, value)),
            Some(value) => drop(new.insert(name, value)),
            None => {
                let value = old.get(&name).cloned().unwrap_or(Value::Null);
                new.insert(name, value);
            }
        }
        rest = after.trim_start_matches(' ');
    }
    if old.is_empty() {
        old.clone_from(&new);
    }
    Ok((old, new))
}

/// Reads a value, and returns what follows; `None` stands for one that did not change.
fn value(text: &str) -> Result<(Option<Value>, &str), BoxError> {
    let Some(quoted) = text.strip_prefix('\'') else {
        let (plain, rest) = text.split_once(' ').unwrap_or((text, ""));
        let value = match plain {
            "null" => Some(Value::Null),
            "unchanged-toast-datum" => None,
            number => Some(Value::Number(number.parse()?)),
        };
        return Ok((value, rest));
    };
    let (mut literal, mut rest) = (String::new(), quoted);
    loop {
        let (part, after) = rest.split_once('\'').ok_or("a value without an end")?;
        literal += part;
        match after.strip_prefix('\'') {
            Some(after) => {
                literal.push('\'');
                rest = after;
            }
            None => {
                rest = after;
                break;
            }
        }
    }
    let bytes = match literal.strip_prefix("\\x") {
        Some(digits) => from_hex(digits)?,
        None => literal.into_bytes(),
    };
    Ok((Some(Value::Bytes(bytes)), rest))
}

fn from_hex(digits: &str) -> Result<Vec<u8>, BoxError> {
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?);
    pairs.map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_with_quotes_and_spaces_are_read() {
        let text = "old-key: id[text]:'it''s a b' token[bigint]:7 result[bytea]:'\\x6100' \
            new-tuple: id[text]:'it''s a b' token[bigint]:-8 metadata[text]:null \
            result[bytea]:unchanged-toast-datum";
        let (old, new) = tuples_of(text).unwrap();
        assert_eq!(old["id"], Value::Bytes(b"it's a b".to_vec()));
        assert_eq!(old["token"], Value::Number(7));
        assert_eq!(new["token"], Value::Number(-8));
        assert_eq!(new["metadata"], Value::Null);
        assert_eq!(new["result"], Value::Bytes(vec![0x61, 0]));
    }
}
