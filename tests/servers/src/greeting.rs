//! What a MySQL or MariaDB server says first: that it takes connections, and its version. No log-in is needed.
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase_packets_protocol_handshake_v10.html>

use std::io::{self, Read};

use crate::error::Doing;
use crate::url::Url;
use crate::{Error, Result};

const PORT: u16 = 3306;
const HANDSHAKE: u8 = 10;
const REFUSAL: u8 = 0xff;
/// MariaDB says this before its version, for old clients that expect a MySQL 5.
const DISGUISE: &str = "5.5.5-";

/// The version of the server at `url`, as it says itself: `9.7.4`, `10.11.14-MariaDB`.
pub(crate) fn version(url: &str) -> Result<String> {
    let url = Url::parse(url, PORT)?;
    let place = || format!("{}:{} does not answer", url.host, url.port);
    let packet = url.connect().and_then(receive).doing(place)?;
    greeted(&packet)
}

/// Three bytes of length, one of numbering, then the packet.
fn receive(mut stream: impl Read) -> io::Result<Vec<u8>> {
    let mut head = [0; 4];
    stream.read_exact(&mut head)?;
    let length = u32::from_le_bytes([head[0], head[1], head[2], 0]);
    let mut packet = Vec::new();
    stream.take(length.into()).read_to_end(&mut packet)?;
    Ok(packet)
}

fn greeted(packet: &[u8]) -> Result<String> {
    match packet {
        [HANDSHAKE, rest @ ..] => {
            let version = rest.split(|byte| *byte == 0).next().unwrap_or_default();
            let version = String::from_utf8_lossy(version);
            Ok(version.strip_prefix(DISGUISE).unwrap_or(&version).into())
        }
        // Two bytes of number, then the text.
        [REFUSAL, _, _, message @ ..] => Err(Error::failed(String::from_utf8_lossy(message))),
        _ => Err(Error::failed("this is not a MySQL or MariaDB server")),
    }
}

/// `10.11.14-MariaDB-0+deb12u2` is 10.11.14.
pub(crate) fn number(version: &str) -> String {
    version.split('-').next().unwrap_or(version).into()
}

#[cfg(test)]
mod tests {
    use super::{greeted, number, receive};

    #[test]
    fn the_version_is_what_stands_before_the_first_zero() {
        let packet = receive(&b"\x09\0\0\0\x0a9.7.4\0\x01\0rest"[..]).unwrap();
        assert_eq!(greeted(&packet).unwrap(), "9.7.4");
    }

    #[test]
    fn mariadb_is_seen_through_its_disguise() {
        let version = greeted(b"\x0a5.5.5-10.11.14-MariaDB-0+deb12u2\0\x07").unwrap();
        assert_eq!(version, "10.11.14-MariaDB-0+deb12u2");
        assert_eq!(number(&version), "10.11.14");
    }

    #[test]
    fn a_server_that_refuses_is_not_ready_and_its_reason_is_kept() {
        let error = greeted(b"\xff\x10\x04Too many connections").unwrap_err();
        assert_eq!(error.to_string(), "Too many connections");
        assert!(greeted(b"SSH-2.0").is_err());
        assert!(greeted(b"").is_err());
    }

    #[test]
    fn a_packet_that_is_cut_off_is_an_error() {
        assert!(receive(&b"\x09\0"[..]).is_err());
    }
}
