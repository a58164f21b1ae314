//! As much of Redis's protocol, version 2, as it takes to see that a server is ready, who it is, and to make a
//! cluster of several. No driver: `cargo xtask` has to build in seconds.
//! <https://redis.io/docs/latest/develop/reference/protocol-spec/>

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use crate::error::Doing;
use crate::url::Url;
use crate::{Error, Result};

const PORT: u16 = 6379;
/// No answer to these few questions comes near it.
const LONGEST: usize = 1 << 20;

/// A connection that is ready for commands.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
    place: String,
}

impl Connection {
    /// Logs in where the URL says how.
    pub(crate) fn open(url: &str) -> Result<Self> {
        let url = Url::parse(url, PORT)?;
        let place = format!("{}:{}", url.host, url.port);
        let stream = url.connect().doing(|| format!("{place} does not answer"))?;
        let mut connection = Self {
            stream: BufReader::new(stream),
            place,
        };
        match (&url.user, &url.password) {
            (Some(user), Some(password)) => connection.ask(&["AUTH", user, password])?,
            (None, Some(password)) => connection.ask(&["AUTH", password])?,
            _ => String::new(),
        };
        Ok(connection)
    }

    /// Runs a command; a list is answered as one line for each of its parts.
    pub(crate) fn ask(&mut self, words: &[&str]) -> Result<String> {
        let written = self.stream.get_mut().write_all(&command(words));
        let answer = written.and_then(|()| receive(&mut self.stream));
        match answer.doing(|| format!("{} does not answer", self.place))? {
            Answer::Text(text) => Ok(text),
            Answer::Refusal(message) => Err(Error::failed(message)),
        }
    }

    /// The value of one line of `INFO`.
    pub(crate) fn info(&mut self, section: &str, name: &str) -> Result<Option<String>> {
        let text = self.ask(&["INFO", section])?;
        Ok(field(&text, name).map(Into::into))
    }
}

/// The value of a line `name:value`.
pub(crate) fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .map(str::trim_end)
}

#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Text(String),
    Refusal(String),
}

fn command(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len());
    for word in words {
        bytes.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    bytes.into_bytes()
}

fn receive(stream: &mut impl BufRead) -> io::Result<Answer> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "not a Redis server");
    let mut line = String::new();
    // A line that is no line is not read to its end.
    stream.by_ref().take(LONGEST as u64).read_line(&mut line)?;
    let line = line.strip_suffix("\r\n").ok_or_else(wrong)?;
    let (kind, rest) = line.split_at_checked(1).ok_or_else(wrong)?;
    let length = || rest.parse::<i64>().map_err(|_| wrong());
    match kind {
        "+" | ":" => Ok(Answer::Text(rest.into())),
        "-" => Ok(Answer::Refusal(rest.into())),
        "$" => bulk(stream, length()?).map(Answer::Text),
        "*" => {
            let mut parts = Vec::new();
            for _ in 0..length()? {
                match receive(stream)? {
                    Answer::Text(part) => parts.push(part),
                    refusal => return Ok(refusal),
                }
            }
            Ok(Answer::Text(parts.join("\n")))
        }
        _ => Err(wrong()),
    }
}

/// A length below zero is no value.
fn bulk(stream: &mut impl BufRead, length: i64) -> io::Result<String> {
    let Ok(length) = usize::try_from(length) else {
        return Ok(String::new());
    };
    if length > LONGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "too long"));
    }
    let mut bytes = vec![0; length + 2];
    stream.read_exact(&mut bytes)?;
    bytes.truncate(length);
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::{Answer, command, field, receive};

    fn answer(mut bytes: &[u8]) -> Option<Answer> {
        receive(&mut bytes).ok()
    }

    #[test]
    fn a_command_is_a_list_of_words() {
        assert_eq!(
            command(&["SET", "k", ""]),
            b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n"
        );
    }

    #[test]
    fn answers_of_every_kind_are_read() {
        let text = |text: &str| Some(Answer::Text(text.into()));
        assert_eq!(answer(b"+PONG\r\n"), text("PONG"));
        assert_eq!(answer(b":7\r\n"), text("7"));
        assert_eq!(answer(b"$5\r\na\r\nbc\r\n"), text("a\r\nbc"));
        assert_eq!(answer(b"$-1\r\n"), text(""));
        assert_eq!(answer(b"*2\r\n$1\r\na\r\n:2\r\n"), text("a\n2"));
        let refusal = Answer::Refusal("LOADING wait".into());
        assert_eq!(answer(b"-LOADING wait\r\n"), Some(refusal));
    }

    #[test]
    fn what_is_not_redis_or_is_cut_off_is_an_error() {
        assert_eq!(answer(b"SSH-2.0\r\n"), None);
        assert_eq!(answer(b"$5\r\nab"), None);
        assert_eq!(answer(b""), None);
        assert_eq!(answer(b"\r\n"), None);
    }

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let text = "# Server\r\nredis_version:7.0.15\r\nredis_mode:cluster\r\n";
        assert_eq!(field(text, "redis_mode"), Some("cluster"));
        assert_eq!(field(text, "redis"), None);
    }
}
