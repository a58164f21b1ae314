//! Servers that behave otherwise than the one that runs: a proxy in front of it changes messages.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use idem_core::BoxError;
use idem_mongo::mongodb::bson::{Bson, Document, doc};
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

use super::standalone::{OP_MSG, number, read};

/// Where the first document of an `OP_MSG` begins, after the header, flags and its kind.
const DOCUMENT: usize = 21;

/// A server whose behaviour the proxy imitates.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Imitated {
    /// A `mongod`: no time limit ends an upsert that meets another transaction's insert.
    EndlessUpserts,
    /// Members of a replica set that confirm a write after this time.
    SlowMembers(Duration),
}

/// The time limits of the writes that are under way, by the ids of their messages.
type Limits = Mutex<HashMap<i32, Duration>>;

/// Listens until the runtime ends.
pub(crate) async fn start(server: SocketAddr, imitated: Imitated) -> Result<SocketAddr, BoxError> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(async move { forward(client, server, imitated).await });
        }
    });
    Ok(address)
}

async fn forward(
    client: TcpStream,
    server: SocketAddr,
    imitated: Imitated,
) -> Result<(), BoxError> {
    let server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let limits = Limits::default();
    tokio::select! {
        ended = pass_requests(from_client, to_server, imitated, &limits) => ended,
        ended = pass_answers(from_server, to_client, imitated, &limits) => ended,
    }
}

async fn pass_requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    imitated: Imitated,
    limits: &Limits,
) -> Result<(), BoxError> {
    loop {
        let message = read(&mut from).await?;
        let id = number(&message, 4)?;
        let message = changed(message, |command| {
            let name = command.keys().next().map(String::as_str);
            let writes = matches!(name, Some("findAndModify" | "update"));
            if !writes || command.contains_key("autocommit") {
                return;
            }
            match imitated {
                Imitated::EndlessUpserts if inserts(command) => drop(command.remove("maxTimeMS")),
                Imitated::EndlessUpserts => {}
                Imitated::SlowMembers(_) => {
                    let limit = match command.get("maxTimeMS") {
                        Some(Bson::Int32(limit)) => u64::try_from(*limit).ok(),
                        Some(Bson::Int64(limit)) => u64::try_from(*limit).ok(),
                        _ => None,
                    };
                    let limit = limit.map_or(Duration::MAX, Duration::from_millis);
                    let mut limits = limits.lock().unwrap_or_else(PoisonError::into_inner);
                    limits.insert(id, limit);
                }
            }
        })?;
        to.write_all(&message).await?;
    }
}

/// Returns whether it is an upsert, or has one.
fn inserts(command: &Document) -> bool {
    let is_upsert = |statement: &Document| statement.get_bool("upsert").unwrap_or(false);
    let statements = command.get_array("updates").into_iter().flatten();
    is_upsert(command) || statements.filter_map(Bson::as_document).any(is_upsert)
}

async fn pass_answers(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    imitated: Imitated,
    limits: &Limits,
) -> Result<(), BoxError> {
    loop {
        let mut message = read(&mut from).await?;
        let request = number(&message, 8)?;
        let limit = limits
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&request);
        if let (Some(limit), Imitated::SlowMembers(confirmed)) = (limit, imitated) {
            tokio::time::sleep(limit.min(confirmed)).await;
            message = changed(message, |answer| {
                if limit < confirmed && answer.get_f64("ok").ok() == Some(1.0) {
                    let error =
                        doc! { "code": 50, "codeName": "MaxTimeMSExpired", "errmsg": "late" };
                    answer.insert("writeConcernError", error);
                }
            })?;
        }
        to.write_all(&message).await?;
    }
}

/// Changes the first document of a message.
fn changed(message: Vec<u8>, change: impl FnOnce(&mut Document)) -> Result<Vec<u8>, BoxError> {
    if number(&message, 12)? != OP_MSG {
        return Ok(message);
    }
    let end = DOCUMENT + usize::try_from(number(&message, DOCUMENT)?)?;
    let mut document = Document::from_reader(&message[DOCUMENT..end])?;
    change(&mut document);
    let rest = [&message[4..DOCUMENT], &document.to_vec()?, &message[end..]].concat();
    let length = i32::try_from(rest.len() + 4)?.to_le_bytes();
    Ok([&length[..], &rest].concat())
}
