//! MySQL and MariaDB: the binary log by row, as the server's own program prints it.

use std::path::Path;

use idem_core::BoxError;
use idem_mysql::sqlx::{Row as _, query};
use idem_servers::server;
use idem_stores::MySql;

use super::Change;
use super::columns::{Columns, Value, key, row};

/// The columns in the order of the table, by which the log names them.
const COLUMNS: &str = "SELECT CAST(column_name AS CHAR) FROM information_schema.columns
    WHERE table_schema = ? AND table_name = 'idem_records' ORDER BY ordinal_position";

pub(super) async fn changes(adapter: &MySql, namespace: &str) -> Result<Vec<Change>, BoxError> {
    let mut connection = adapter.connect().await?;
    let named = query(COLUMNS)
        .bind(namespace)
        .fetch_all(&mut connection)
        .await?;
    let names: Result<Vec<String>, _> = named.iter().map(|row| row.try_get(0)).collect();
    let names = names?;
    let base = query("SELECT CAST(@@log_bin_basename AS CHAR)");
    let base: String = base.fetch_one(&mut connection).await?.try_get(0)?;
    let folder = Path::new(&base).parent().ok_or("the log has no folder")?;
    let files = query("SHOW BINARY LOGS").fetch_all(&mut connection).await?;
    let version: String = query("SELECT VERSION()")
        .fetch_one(&mut connection)
        .await?
        .try_get(0)?;
    let is_mariadb = version.contains("MariaDB");
    let (product, program) = match is_mariadb {
        true => ("mariadb", "mariadb-binlog"),
        false => ("mysql", "mysqlbinlog"),
    };
    let mut changes = Vec::new();
    for file in files {
        let file: String = file.try_get(0)?;
        let output = server(product)?
            .tool(&[program])
            .args(["--verbose", "--base64-output=DECODE-ROWS"])
            .arg(folder.join(&file))
            .output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
        let table = format!("`{namespace}`.`idem_records`");
        let mut printed = Printed {
            file: &file,
            table: &table,
            names: &names,
            escapes_as_c: !is_mariadb,
            change: None,
            at: String::new(),
            changes: &mut changes,
        };
        for line in output.stdout.split(|byte| *byte == b'\n') {
            printed.line(line)?;
        }
        printed.end()?;
    }
    Ok(changes)
}

/// A change that is being read: whether it deletes, and its latest row.
type Open = (bool, Columns);

struct Printed<'a> {
    file: &'a str,
    table: &'a str,
    names: &'a [String],
    escapes_as_c: bool,
    change: Option<Open>,
    at: String,
    changes: &'a mut Vec<Change>,
}

impl Printed<'_> {
    fn line(&mut self, line: &[u8]) -> Result<(), BoxError> {
        if let Some(at) = line.strip_prefix(b"# at ") {
            self.end()?;
            self.at = String::from_utf8_lossy(at).into_owned();
            return Ok(());
        }
        let Some(text) = line.strip_prefix(b"### ") else {
            return self.end();
        };
        let begins = |kind: &str| text.starts_with(kind.as_bytes());
        if begins("INSERT INTO ") || begins("UPDATE ") || begins("DELETE FROM ") {
            self.end()?;
            if text.ends_with(self.table.as_bytes()) {
                self.change = Some((begins("DELETE"), Columns::new()));
            }
        } else if let Some((_, columns)) = &mut self.change
            && let Some(column) = text.strip_prefix(b"  @")
        {
            let equals = column.iter().position(|byte| *byte == b'=');
            let (number, value) = column.split_at(equals.ok_or("a column without a value")?);
            let number: usize = std::str::from_utf8(number)?.parse()?;
            let name = self.names.get(number - 1).ok_or("an unknown column")?;
            // Of an update, the row after it comes last.
            let value = self::value(&value[1..], self.escapes_as_c)?;
            columns.insert(name.clone(), value);
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), BoxError> {
        let Some((is_deleted, mut columns)) = self.change.take() else {
            return Ok(());
        };
        // Trailing zeros of a fixed length are not in the log.
        if let Some(Value::Bytes(attempt)) = columns.get_mut("attempt_id") {
            attempt.resize(16, 0);
        }
        self.changes.push(Change {
            at: format!("{}:{}", self.file, self.at),
            k: key(&columns)?,
            now: None,
            row: (!is_deleted).then(|| row(&columns)).transpose()?,
        });
        Ok(())
    }
}

/// Reads `7`, `-7 (18446744073709551609)`, `NULL` or `'text'`, in which control characters are
/// escaped as `\x0a`. MySQL writes what C has a letter for with that, and escapes quotes and
/// backslashes, too.
fn value(text: &[u8], escapes_as_c: bool) -> Result<Value, BoxError> {
    if text == b"NULL" {
        return Ok(Value::Null);
    }
    let quoted = text
        .strip_prefix(b"'")
        .and_then(|text| text.strip_suffix(b"'"));
    let Some(mut rest) = quoted else {
        let number = std::str::from_utf8(text)?.split(' ').next();
        return Ok(Value::Number(number.unwrap_or_default().parse()?));
    };
    let mut bytes = Vec::with_capacity(rest.len());
    while let [first, after @ ..] = rest {
        let escaped = match (first, after) {
            (b'\\', [letter, ..]) if escapes_as_c && *letter != b'x' => {
                Some((of_letter(*letter)?, 1))
            }
            (b'\\', [b'x', high @ b'0'..=b'1', low, ..]) => {
                let digits = [*high, *low];
                let digits = std::str::from_utf8(&digits).ok();
                let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
                byte.map(|byte| (byte, 3))
            }
            _ => None,
        };
        let (byte, length) = escaped.unwrap_or((*first, 0));
        bytes.push(byte);
        rest = &after[length..];
    }
    Ok(Value::Bytes(bytes))
}

/// Returns the byte that C writes as a backslash and this letter.
fn of_letter(letter: u8) -> Result<u8, BoxError> {
    Ok(match letter {
        b'\\' | b'\'' | b'"' => letter,
        b'a' => 0x07,
        b'b' => 0x08,
        b't' => b'\t',
        b'n' => b'\n',
        b'v' => 0x0b,
        b'f' => 0x0c,
        b'r' => b'\r',
        _ => return Err(format!("an unknown escape `\\{}`", char::from(letter)).into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_they_are_printed() {
        for is_mysql in [false, true] {
            let value = |text| value(text, is_mysql).unwrap();
            assert_eq!(value(b"NULL"), Value::Null);
            assert_eq!(value(b"-7 (18446744073709551609)"), Value::Number(-7));
        }
        let bytes = Value::Bytes(b"a\0'\\\x0e\xff".to_vec());
        assert_eq!(value(b"'a\\x00'\\\\x0e\xff'", false).unwrap(), bytes);
        assert_eq!(value(b"'a\\x00\\'\\\\\\x0e\xff'", true).unwrap(), bytes);
        let bytes = Value::Bytes(b"\x08\x0a$".to_vec());
        assert_eq!(value(br"'\b\n$'", true).unwrap(), bytes);
        assert!(value(br"'\q'", true).is_err());
    }
}
