//! The connections that a statement runs on: [`Connection`], and [`ClientExecutor`] for a caller's
//! transaction.

use idem_core::{Error, Result, async_trait};
use idem_sql::cells::{self, Cells, Columns, Row};
use idem_sql::executor::{Answer, BoundStatement, Executor};
use idem_sql::parameters::Value;
use tiberius::error::Error as DriverError;
use tiberius::{ColumnData, IntoSql, Query};

use crate::pool::{self, Client, Connection};

/// The client of a caller's transaction.
pub(crate) struct ClientExecutor<'c>(pub(crate) &'c mut Client);

#[async_trait]
impl Executor for ClientExecutor<'_> {
    type Error = DriverError;

    async fn run(&mut self, statement: &BoundStatement<'_>) -> Result<Answer, DriverError> {
        pool::read(self.0, query(statement)).await.map(answer)
    }
}

impl std::fmt::Debug for ClientExecutor<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientExecutor").finish_non_exhaustive()
    }
}

#[async_trait]
impl Executor for Connection {
    type Error = DriverError;

    async fn run(&mut self, statement: &BoundStatement<'_>) -> Result<Answer, DriverError> {
        Self::run(self, query(statement)).await.map(answer)
    }
}

fn query<'q>(statement: &'q BoundStatement<'_>) -> Query<'q> {
    let mut query = Query::new(&*statement.text);
    query.bind_iter(statement.values.iter().map(Bound));
    query
}

fn answer(results: Vec<Vec<tiberius::Row>>) -> Answer {
    let rows = results.into_iter().flatten();
    Answer {
        rows: rows.map(|row| Box::new(MssqlRow(row)) as Row).collect(),
        ..Answer::default()
    }
}

/// Returns the number in the first row of a script's results.
pub(crate) fn first_number(results: Vec<Vec<tiberius::Row>>) -> Result<i64> {
    let rows = answer(results).rows;
    let row = rows.first().map(Columns::of);
    let row = row.ok_or_else(|| Error::corrupt("a script's answer has no row"))?;
    row.number(0)
}

/// A value as the driver takes it. Keys are sent as the bytes that the columns hold. A missing text
/// is sent as empty, which the statements store as NULL: Babelfish takes no NULL of the driver's
/// type.
struct Bound<'q>(&'q Value<'q>);

impl<'q> IntoSql<'q> for Bound<'q> {
    fn into_sql(self) -> ColumnData<'q> {
        match self.0 {
            Value::Text(text) => text.as_bytes().into_sql(),
            Value::OptionalText(text) => text.unwrap_or_default().into_sql(),
            Value::Bytes(bytes) => (&**bytes).into_sql(),
            Value::Number(number) => (*number).into_sql(),
            Value::OptionalNumber(number) => (*number).into_sql(),
            Value::Flag(flag) => i32::from(*flag).into_sql(),
            Value::Count(count) => (*count).into_sql(),
            // No statement of this store has arrays: the server knows none.
            Value::Array(_) => ColumnData::I64(None),
        }
    }
}

/// A row of the driver.
#[derive(Debug)]
struct MssqlRow(tiberius::Row);

impl MssqlRow {
    fn cell(&self, index: usize) -> Result<&ColumnData<'static>> {
        let cell = self.0.get_column_data(index);
        cell.map_err(|error| cells::unexpected(index).with_source(error))
    }
}

impl Cells for MssqlRow {
    fn width(&self) -> usize {
        self.0.len()
    }

    fn number(&self, index: usize) -> Result<Option<i64>> {
        Ok(match self.cell(index)? {
            ColumnData::U8(number) => number.map(i64::from),
            ColumnData::I16(number) => number.map(i64::from),
            ColumnData::I32(number) => number.map(i64::from),
            ColumnData::I64(number) => *number,
            ColumnData::Bit(flag) => flag.map(i64::from),
            _ => return Err(cells::unexpected(index)),
        })
    }

    fn bytes(&self, index: usize) -> Result<Option<&[u8]>> {
        match self.cell(index)? {
            ColumnData::Binary(bytes) => Ok(bytes.as_deref()),
            _ => Err(cells::unexpected(index)),
        }
    }

    fn text(&self, index: usize) -> Result<Option<&str>> {
        match self.cell(index)? {
            ColumnData::String(text) => Ok(text.as_deref()),
            _ => Err(cells::unexpected(index)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use idem_core::{AttemptId, Claim, ErrorKind, FencingToken, Key, Timestamp};
    use idem_sql::parameters::Values;
    use tiberius::ColumnType;

    use crate::Config;
    use crate::statements::Statements;

    fn row(cell: ColumnData<'static>) -> Row {
        let builder = tiberius::Row::builder().column("", ColumnType::Null, cell);
        Box::new(MssqlRow(builder.build()))
    }

    #[test]
    fn a_number_of_any_width_is_read() {
        for cell in [
            ColumnData::U8(Some(1)),
            ColumnData::I16(Some(1)),
            ColumnData::I32(Some(1)),
            ColumnData::I64(Some(1)),
            ColumnData::Bit(Some(true)),
        ] {
            assert_eq!(Columns::of(&row(cell)).number(0).unwrap(), 1);
        }
    }

    #[test]
    fn a_cell_of_another_type_is_corrupt() {
        let text = ColumnData::String(Some("1".into()));
        for cell in [text, ColumnData::I64(None), ColumnData::F64(Some(1.0))] {
            let error = Columns::of(&row(cell)).number(0).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
        }
        let row = row(ColumnData::I32(Some(1)));
        assert!(row.bytes(0).is_err());
        assert!(row.text(0).is_err());
        assert!(row.number(1).is_err());
    }

    /// The driver would send text as `nvarchar`, and the server would convert the columns instead
    /// of seeking.
    #[test]
    fn keys_are_sent_as_the_bytes_that_the_columns_hold() {
        let sql = Statements::new(&Config::new());
        let claim = Claim::new(
            Key::new("\u{c4}", "p", "1").unwrap(),
            FencingToken::from_i64(7),
            AttemptId::from_bytes([9; 16]),
            1,
            Timestamp::default(),
            Timestamp::default(),
        );
        let values = Values::of_claim(&claim);
        let mut values = values.of(&sql.release.parameters).unwrap();
        values.push(Value::Count(1));
        let sent: Vec<_> = values.iter().map(|value| Bound(value).into_sql()).collect();
        let attempt = format!("{:?}", [9; 16]);
        assert_eq!(
            format!("{sent:?}"),
            format!(
                "[Binary(Some([195, 132])), Binary(Some([112])), Binary(Some([49])), I64(Some(7)), \
                 Binary(Some({attempt})), I32(Some(1))]"
            )
        );
    }
}
