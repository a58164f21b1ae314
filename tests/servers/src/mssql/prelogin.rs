//! The first packet of TDS, SQL Server's protocol, and its answer, which tells the server's version to anybody.
//! <https://learn.microsoft.com/en-us/openspecs/windows_protocols/ms-tds/60f56408-0188-4cd5-8b90-25c6f2423868>

use std::io::{self, Read, Write};

use crate::error::Doing;
use crate::url::Url;
use crate::{Error, Result};

const PRELOGIN: u8 = 0x12;
const ANSWER: u8 = 0x04;
const LAST: u8 = 0x01;
const HEADER: usize = 8;
const VERSION: u8 = 0x00;
const ENCRYPTION: u8 = 0x01;
const END: u8 = 0xff;

/// The version of the server, where it tells it.
pub(crate) fn version(url: &Url) -> Result<Option<String>> {
    let place = || format!("{}:{} does not answer", url.host, url.port);
    let mut stream = url.connect().doing(place)?;
    stream.write_all(&request()).doing(place)?;
    let (kind, body) = receive(&mut stream).doing(place)?;
    if kind != ANSWER {
        return Err(Error::failed("this is not a SQL Server"));
    }
    Ok(option(&body, VERSION).and_then(number))
}

/// No version of ours, and no encryption asked for. Each option is a letter, a place and a length; the values follow.
fn request() -> Vec<u8> {
    let options = [VERSION, 0, 11, 0, 6, ENCRYPTION, 0, 17, 0, 1, END];
    let values = [0; 7];
    let length = u8::try_from(HEADER + options.len() + values.len()).unwrap_or(u8::MAX);
    let header = [PRELOGIN, LAST, 0, length, 0, 0, 1, 0];
    [&header[..], &options, &values].concat()
}

fn receive(stream: &mut impl Read) -> io::Result<(u8, Vec<u8>)> {
    let mut header = [0; HEADER];
    stream.read_exact(&mut header)?;
    let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let mut body = vec![0; length.saturating_sub(HEADER)];
    stream.read_exact(&mut body)?;
    Ok((header[0], body))
}

/// The value of an option.
fn option(body: &[u8], wanted: u8) -> Option<&[u8]> {
    let mut entries = body
        .chunks_exact(5)
        .take_while(|entry| entry[0] != END)
        .filter(|entry| entry[0] == wanted);
    let entry = entries.next()?;
    let number = |place: usize| usize::from(u16::from_be_bytes([entry[place], entry[place + 1]]));
    let (place, length) = (number(1), number(3));
    body.get(place..place + length)
}

/// Major, minor, two bytes of build.
fn number(value: &[u8]) -> Option<String> {
    let [major, minor, high, low, ..] = value else {
        return None;
    };
    let build = u16::from_be_bytes([*high, *low]);
    Some(format!("{major}.{minor}.{build}"))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::{ENCRYPTION, VERSION, number, option, request, version};
    use crate::url::Url;

    const ANSWER: &[u8] =
        b"\x04\x01\0\x1a\0\0\x01\0\0\0\x0b\0\x06\x01\0\x11\0\x01\xff\x10\0\x10\x27\0\0\x02";

    /// A server that takes one request and answers with this.
    fn answering(answer: &'static [u8]) -> Url {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            stream.read_exact(&mut vec![0; request().len()]).unwrap();
            stream.write_all(answer).unwrap();
        });
        Url::parse(&format!("mssql://sa:x@127.0.0.1:{port}/master"), 1433).unwrap()
    }

    #[test]
    fn a_request_carries_its_length_and_its_values_at_the_places_told() {
        let request = request();
        assert_eq!(usize::from(request[3]), request.len());
        assert_eq!(option(&request[8..], VERSION), Some(&[0; 6][..]));
        assert_eq!(option(&request[8..], ENCRYPTION), Some(&[0][..]));
        assert_eq!(option(&request[8..], 7), None);
    }

    #[test]
    fn the_version_is_read_from_the_answer() {
        let version = version(&answering(ANSWER)).unwrap();
        assert_eq!(version.as_deref(), Some("16.0.4135"));
    }

    #[test]
    fn what_is_not_an_answer_is_refused() {
        assert!(version(&answering(b"\x15\x01\0\x08\0\0\0\0")).is_err());
        assert!(version(&answering(b"HTTP")).is_err());
    }

    #[test]
    fn an_answer_without_a_version_is_a_server_all_the_same() {
        let told = version(&answering(b"\x04\x01\0\x09\0\0\x01\0\xff")).unwrap();
        assert_eq!(told, None);
        assert_eq!(number(&[16, 0]), None);
        // Told to lie beyond the end.
        assert_eq!(option(&[VERSION, 0, 99, 0, 6, 0xff], VERSION), None);
    }
}
