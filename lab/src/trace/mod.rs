//! Traces: the changes of records in the order in which the server itself committed them, each of
//! which has to be one step of the specification.
//!
//! The [search](crate::search) asks whether *some* order explains the answers. Here the server says
//! the order, by its own log, so nothing is searched: whole runs are validated, and every answer that
//! changed nothing, too.
//!
//! | server | log |
//! | --- | --- |
//! | PostgreSQL | logical decoding by `test_decoding`, with `REPLICA IDENTITY FULL` |
//! | Redis, Valkey | the append-only file, without a preamble and rewrites |
//! | MariaDB, MySQL | the binary log by row, read by the server's own program |
//! | SQLite | triggers that write each row into a second table |
//!
//! SQL Server and the MongoDB-compatible server have none here.

mod change;
mod columns;
mod command;
mod coverage;
mod lines;
mod mysql;
mod postgres;
mod redis;
mod script;
mod source;
mod sqlite;
mod validate;

pub use change::{Change, Row, State};
pub use command::{Orders, Traced, run};
pub use coverage::{Coverage, TRANSITIONS, coverage};
pub use lines::{LineError, Trace};
pub use script::{NAMES, play};
pub use source::Log;
pub use validate::{Refusal, Verdict, validate};
