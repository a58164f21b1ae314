//! [`Session`]: runs statements on a connection of the pool, or in the caller's transaction.

use std::borrow::Cow;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use deadpool::managed::Object;
use idem_core::{Effect, Error, ErrorKind, Result};
use idem_sql::parameters::{Parameter, Value, Values};
use tiberius::{ColumnData, IntoSql, Row};

use crate::config::Config;
use crate::dialect::Server;
use crate::error::{Access, classify, is_rolled_back, no_connection};
use crate::pool::{self, Client, Connection, Manager, Pool};
use crate::statements::{Statement, Wait};

/// How often a statement is sent again after deadlocks, and the longest pause after the first.
const MAX_DEADLOCKS: u32 = 5;
const MAX_PAUSE: Duration = Duration::from_millis(10);

/// A statement and the values of its parameters.
#[derive(Debug, Clone)]
pub(crate) struct Query<'q> {
    statement: &'q Statement,
    values: Vec<Bound<'q>>,
    /// A parameter that the operation has forgotten.
    missing: Option<Parameter>,
    wait: Wait,
    /// Whether its text begins a transaction and ends it.
    begins: bool,
}

#[derive(Debug, Clone)]
struct Bound<'q>(ColumnData<'q>);

impl<'q> IntoSql<'q> for Bound<'q> {
    fn into_sql(self) -> ColumnData<'q> {
        self.0
    }
}

impl<'q> Query<'q> {
    pub(crate) fn new(statement: &'q Statement) -> Self {
        Self {
            statement,
            values: Vec::new(),
            missing: None,
            wait: Wait::Shortly,
            begins: false,
        }
    }

    /// Sets whether the statement waits for a lock that others hold.
    pub(crate) fn waiting(self, wait: Wait) -> Self {
        Self { wait, ..self }
    }

    /// Notes that the text begins a transaction and ends it. After an error it may not have reached
    /// the end. The connection is then closed; otherwise the next statements on it would be part of
    /// that transaction, and be lost with it.
    pub(crate) fn beginning(self) -> Self {
        Self {
            begins: true,
            ..self
        }
    }

    /// Creates a query with the statement's values.
    pub(crate) fn of(statement: &'q Statement, values: &'q Values<'_>) -> Self {
        Self::new(statement).bind_all(values)
    }

    /// Binds the statement's parameters; of a batch, those of the next row. Keys are sent as the
    /// bytes that the columns hold. A missing text is sent as empty, which the statements store as
    /// NULL: Babelfish takes no NULL of the driver's type.
    pub(crate) fn bind_all(self, values: &'q Values<'_>) -> Self {
        let bind = |query: Self, &parameter: &Parameter| match values.get(parameter) {
            Some(Value::Text(text)) => query.bind(text.as_bytes()),
            Some(Value::OptionalText(text)) => query.bind(text.unwrap_or_default()),
            Some(Value::Bytes(bytes)) => query.bind(&**bytes),
            Some(Value::Number(number)) => query.bind(*number),
            Some(Value::OptionalNumber(number)) => query.bind(*number),
            Some(Value::Flag(flag)) => query.bind(i32::from(*flag)),
            None => Self {
                missing: Some(parameter),
                ..query
            },
        };
        let statement = self.statement;
        statement.parameters.iter().fold(self, bind)
    }

    /// Returns an error where the operation has forgotten a parameter.
    fn check(&self) -> Result<()> {
        let Some(parameter) = self.missing else {
            return Ok(());
        };
        let name = parameter.name();
        let message = format!("the statement's parameter {name} has no value");
        Err(Error::new(ErrorKind::Other, Effect::None, message))
    }

    /// Binds the next value: bytes as `varbinary`, text as `nvarchar`, integers by their own type.
    pub(crate) fn bind(mut self, value: impl IntoSql<'q>) -> Self {
        self.values.push(Bound(value.into_sql()));
        self
    }

    #[cfg(test)]
    pub(crate) fn parameters(&self) -> Vec<&ColumnData<'q>> {
        self.values.iter().map(|value| &value.0).collect()
    }

    fn with_text(self, text: fn(&'q Statement, Wait) -> Cow<'q, str>) -> tiberius::Query<'q> {
        let mut query = tiberius::Query::new(text(self.statement, self.wait));
        query.bind_iter(self.values);
        query
    }
}

/// Runs single statements and returns all their rows, which are few.
#[derive(Debug)]
pub(crate) enum Session<'s> {
    Pool(&'s Pool, &'s Config),
    Transaction(&'s mut Client, Server),
}

impl<'s> Session<'s> {
    pub(crate) async fn rows(&mut self, query: Query<'_>, sent: Access) -> Result<Vec<Row>> {
        query.check()?;
        let results = match self {
            Self::Pool(pool, config) => alone(pool, config, &query, sent).await?,
            Self::Transaction(client, server) => {
                let text = match server {
                    Server::Babelfish => Statement::in_transaction_on_babelfish,
                    Server::Microsoft | Server::Other => Statement::in_transaction,
                };
                pool::read(client, query.with_text(text))
                    .await
                    .map_err(|error| classify(error, sent))?
            }
        };
        Ok(results.into_iter().flatten().collect())
    }

    /// Returns another session on the pool, if this is one.
    pub(crate) fn beside(&self) -> Option<Session<'s>> {
        match *self {
            Self::Pool(pool, config) => Some(Session::Pool(pool, config)),
            Self::Transaction(..) => None,
        }
    }

    /// Returns whether a statement that lost a race may be sent again. Not in a caller's
    /// transaction: the server has rolled it back.
    pub(crate) fn repeats(&self) -> bool {
        matches!(self, Self::Pool(..))
    }
}

/// Sends the statement, and repeats it when the server broke a deadlock with it: it has then been
/// rolled back as a whole.
async fn alone(
    pool: &Pool,
    config: &Config,
    query: &Query<'_>,
    sent: Access,
) -> Result<Vec<Vec<Row>>> {
    for deadlocks in 1..=MAX_DEADLOCKS {
        match on_pool(pool, config, query.clone(), sent).await {
            Err(error) if is_rolled_back(&error) => {
                let pause = MAX_PAUSE.mul_f64(rand::random_range(0.0..=1.0));
                tokio::time::sleep(pause * deadlocks).await;
            }
            answer => return answer,
        }
    }
    on_pool(pool, config, query.clone(), sent).await
}

async fn on_pool(
    pool: &Pool,
    config: &Config,
    query: Query<'_>,
    sent: Access,
) -> Result<Vec<Vec<Row>>> {
    let mut under_way = Access::Read;
    let work = async {
        let mut connection = ConnectionGuard::from(pool).await?;
        under_way = sent;
        let begins = query.begins;
        let answer = connection.run(query.with_text(Statement::alone)).await;
        if begins && answer.is_err() {
            connection.mark_dirty();
        }
        answer.map_err(|error| classify(error, sent))
    };
    match tokio::time::timeout(config.timeout(), work).await {
        Ok(result) => result,
        Err(_) => Err(under_way.timed_out(config.timeout())),
    }
}

/// A connection of a pool. If it is given back dirty it is closed at once, and does not wait until
/// the pool refuses it: an open transaction on it would hold its locks until the next request for a
/// connection.
#[derive(Debug)]
pub(crate) struct ConnectionGuard {
    // Dropped first; the broom then closes it.
    object: Object<Manager>,
    broom: Broom,
}

impl ConnectionGuard {
    pub(crate) async fn from(pool: &Pool) -> Result<Self> {
        let object = pool.get().await.map_err(no_connection)?;
        Ok(Self {
            object,
            broom: Broom(None),
        })
    }
}

impl Deref for ConnectionGuard {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.object
    }
}

impl DerefMut for ConnectionGuard {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.object
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        if self.object.is_dirty() {
            self.broom.0 = Object::pool(&self.object);
        }
    }
}

/// Closes the dirty connections of a pool when it is dropped.
#[derive(Debug)]
struct Broom(Option<Pool>);

impl Drop for Broom {
    fn drop(&mut self) {
        if let Some(pool) = &self.0 {
            pool.retain(|connection, _| !connection.is_dirty());
        }
    }
}
