//! A server that only says that it is standalone, and refuses what it does not know.

use std::net::SocketAddr;

use idem_core::BoxError;
use idem_mongo::mongodb::bson::{DateTime, Document, doc};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const HEADER_BYTES: usize = 16;
pub(super) const OP_MSG: i32 = 2013;
const OP_REPLY: i32 = 1;
const OP_QUERY: i32 = 2004;

/// Words of a command, and the code and message with which the server refuses it.
pub(crate) type Refused = (&'static str, i32, &'static str);

/// Listens until the runtime ends.
pub(crate) async fn start() -> Result<SocketAddr, BoxError> {
    start_without(("", 0, "")).await
}

/// Starts a server that refuses the commands with these words.
pub(crate) async fn start_without(refused: Refused) -> Result<SocketAddr, BoxError> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move { answer_all(stream, refused).await });
        }
    });
    Ok(address)
}

/// Answers every other command with the greeting of a standalone server.
async fn answer_all(mut stream: TcpStream, refused: Refused) -> Result<(), BoxError> {
    loop {
        let request = read(&mut stream).await?;
        let (words, code, text) = refused;
        let sections = &request[request.len().min(HEADER_BYTES + 5)..];
        let body = match Document::from_reader(sections) {
            Ok(command) if code != 0 && command.to_string().contains(words) => {
                doc! { "ok": 0.0, "code": code, "errmsg": text }
            }
            _ => greeting(),
        };
        let answer = answer(number(&request, 4)?, number(&request, 12)?, &body)?;
        stream.write_all(&answer).await?;
    }
}

/// Reads a message.
pub(super) async fn read(from: &mut (impl AsyncRead + Unpin)) -> Result<Vec<u8>, BoxError> {
    let mut message = vec![0; HEADER_BYTES];
    from.read_exact(&mut message).await?;
    message.resize(usize::try_from(number(&message, 0)?)?, 0);
    from.read_exact(&mut message[HEADER_BYTES..]).await?;
    Ok(message)
}

/// Returns the number at this place of a message.
pub(super) fn number(message: &[u8], at: usize) -> Result<i32, BoxError> {
    Ok(i32::from_le_bytes(message[at..at + 4].try_into()?))
}

/// Returns the message of an answer:
/// <https://www.mongodb.com/docs/manual/reference/mongodb-wire-protocol/>.
fn answer(request: i32, opcode: i32, body: &Document) -> Result<Vec<u8>, BoxError> {
    let (opcode, prefix) = match opcode {
        OP_QUERY => (
            OP_REPLY,
            [&[0; 4][..], &[0; 8], &[0; 4], &1_i32.to_le_bytes()].concat(),
        ),
        _ => (OP_MSG, vec![0; 5]),
    };
    let body = body.to_vec()?;
    let length = i32::try_from(HEADER_BYTES + prefix.len() + body.len())?;
    let header = [length, 1, request, opcode].map(i32::to_le_bytes).concat();
    Ok([header, prefix, body].concat())
}

fn greeting() -> Document {
    doc! {
        "ok": 1.0, "isWritablePrimary": true, "ismaster": true, "helloOk": true,
        "maxBsonObjectSize": 16_777_216, "maxMessageSizeBytes": 48_000_000, "maxWriteBatchSize": 100_000,
        "localTime": DateTime::now(), "minWireVersion": 0, "maxWireVersion": 21,
        "logicalSessionTimeoutMinutes": 30, "readOnly": false,
    }
}
