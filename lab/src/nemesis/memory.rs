//! The memory of a Redis: filled, and emptied.

use idem_core::BoxError;
use idem_redis::redis::{Client, Connection, RedisResult, cmd};

/// The bytes of one value.
const VALUE: usize = 256 << 10;

/// More values than a server of a cell has memory for.
const MAX_VALUES: u64 = 1_000;

/// What was written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Filled {
    /// The number of values.
    pub(crate) values: u64,
    /// Whether the server refuses more.
    pub(crate) is_refused: bool,
}

/// Writes values until the server refuses them, or has dropped as many keys as were written.
pub(crate) fn fill(url: &str) -> Result<Filled, BoxError> {
    let mut connection = connect(url)?;
    let before = count(&mut connection, "evicted_keys")?;
    let value = vec![0_u8; VALUE];
    for number in 0..MAX_VALUES {
        let set = cmd("SET")
            .arg(name(number))
            .arg(&value)
            .exec(&mut connection);
        match set {
            Err(error) if error.code() == Some("OOM") => {
                return Ok(Filled {
                    values: number,
                    is_refused: true,
                });
            }
            set => set?,
        }
        if count(&mut connection, "evicted_keys")? - before > number {
            return Ok(Filled {
                values: number + 1,
                is_refused: false,
            });
        }
    }
    Err(format!("the server has room for {MAX_VALUES} values of {VALUE} bytes").into())
}

/// Deletes so many values.
pub(crate) fn free(url: &str, values: u64) -> Result<(), BoxError> {
    let mut connection = connect(url)?;
    for number in 0..values {
        cmd("DEL").arg(name(number)).exec(&mut connection)?;
    }
    Ok(())
}

/// Deletes every key. Returns how many there were.
pub(crate) fn flush(url: &str) -> Result<u64, BoxError> {
    let mut connection = connect(url)?;
    let keys = cmd("DBSIZE").query(&mut connection)?;
    cmd("FLUSHALL").exec(&mut connection)?;
    Ok(keys)
}

/// Returns how many keys the server has dropped since it was started.
pub(crate) fn evicted(url: &str) -> Result<u64, BoxError> {
    count(&mut connect(url)?, "evicted_keys")
}

fn name(number: u64) -> String {
    format!("ballast-{number}")
}

fn connect(url: &str) -> RedisResult<Connection> {
    Client::open(url)?.get_connection()
}

/// Returns a field of the server's statistics.
fn count(connection: &mut Connection, field: &str) -> Result<u64, BoxError> {
    let text: String = cmd("INFO").arg("stats").query(connection)?;
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    let value = fields.into_iter().find(|(name, _)| *name == field);
    let (_, value) = value.ok_or_else(|| format!("INFO has no {field}"))?;
    Ok(value.trim().parse()?)
}
