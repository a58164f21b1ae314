//! As much of MongoDB's protocol as it takes to see that a server is ready, who it is, and to make it a replica set.
//! No driver: `cargo xtask` has to build in seconds.
//! <https://www.mongodb.com/docs/manual/reference/mongodb-wire-protocol/>

use std::io::{self, Read, Write};
use std::net::TcpStream;

use super::bson::{Document, Writer};
use crate::error::Doing;
use crate::url::Url;
use crate::{Error, Result};

const OP_MSG: i32 = 2013;
const HEAD: usize = 16;
/// Flags of four bytes, and a byte that says that one document follows.
const PREFIX: [u8; 5] = [0; 5];
/// No answer to these few questions comes near it.
const LONGEST: usize = 1 << 20;

/// A connection to one node, without log-in.
pub(crate) struct Connection {
    stream: TcpStream,
    place: String,
}

impl Connection {
    pub(crate) fn open(url: &Url) -> Result<Self> {
        let place = format!("{}:{}", url.host, url.port);
        let stream = url.connect().doing(|| format!("{place} does not answer"))?;
        Ok(Self { stream, place })
    }

    /// Runs a command that takes no more than its name.
    pub(crate) fn ask(&mut self, command: &str) -> Result<Document> {
        self.send(Writer::new().number(command, 1))
    }

    /// Runs a command on the database `admin`.
    pub(crate) fn send(&mut self, command: Writer) -> Result<Document> {
        let body = command.text("$db", "admin").into_bytes();
        let written = self.stream.write_all(&message(&body));
        let answer = written.and_then(|()| receive(&mut self.stream));
        let answer = answer.doing(|| format!("{} does not answer", self.place))?;
        if answer.number("ok") == Some(1) {
            Ok(answer)
        } else {
            let reason = answer.text("errmsg").unwrap_or("refused without a reason");
            Err(Error::failed(reason))
        }
    }
}

/// Length of the whole, number of the request, number of the request that it answers, kind.
fn message(body: &[u8]) -> Vec<u8> {
    let length = HEAD + PREFIX.len() + body.len();
    let length = i32::try_from(length).unwrap_or(i32::MAX);
    let head = [length, 1, 0, OP_MSG].map(i32::to_le_bytes).concat();
    [&head, PREFIX.as_slice(), body].concat()
}

fn receive(stream: &mut impl Read) -> io::Result<Document> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "not a MongoDB server");
    let mut head = [0; HEAD];
    stream.read_exact(&mut head)?;
    let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
    let shortest = HEAD + PREFIX.len();
    if !(shortest..LONGEST).contains(&length) || head[12..] != OP_MSG.to_le_bytes() {
        return Err(wrong());
    }
    let mut body = vec![0; length - HEAD];
    stream.read_exact(&mut body)?;
    Ok(Document::new(body.split_off(PREFIX.len())))
}

#[cfg(test)]
mod tests {
    use super::{Writer, message, receive};

    #[test]
    fn a_message_is_received_as_it_was_sent() {
        let body = Writer::new().text("version", "8").into_bytes();
        let answer = receive(&mut message(&body).as_slice()).unwrap();
        assert_eq!(answer.text("version"), Some("8"));
    }

    #[test]
    fn what_is_not_mongodb_or_is_cut_off_is_an_error() {
        assert!(receive(&mut b"HTTP/1.1 400 Bad Request".as_slice()).is_err());
        let message = message(&Writer::new().into_bytes());
        assert!(receive(&mut &message[..message.len() - 1]).is_err());
    }
}
