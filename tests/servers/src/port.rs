use std::net::{TcpListener, UdpSocket};

use crate::{Error, Result};

/// Below the usual range of outgoing connections, so that a restarted server finds its port still
/// free.
const RANGE: std::ops::Range<u16> = 10_000..22_700;
const ATTEMPTS: usize = 200;

/// A port of 127.0.0.1 that no other private server takes while this value lives, started or not.
#[derive(Debug)]
pub(crate) struct Reservation {
    port: u16,
    /// The same port of UDP, which no server here uses, marks it as taken for every process and
    /// account of the machine.
    _mark: UdpSocket,
}

impl Reservation {
    /// Reserves a free port.
    pub(crate) fn new() -> Result<Self> {
        (0..ATTEMPTS)
            .find_map(|_| Self::try_port(fastrand::u16(RANGE)))
            .ok_or_else(|| Error::failed(format!("no free port on 127.0.0.1 in {RANGE:?}")))
    }

    fn try_port(port: u16) -> Option<Self> {
        let mark = UdpSocket::bind(("127.0.0.1", port)).ok()?;
        TcpListener::bind(("127.0.0.1", port)).ok()?;
        Some(Self { port, _mark: mark })
    }

    /// Returns the port.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{RANGE, Reservation};

    #[test]
    fn ports_reserved_at_the_same_time_differ() {
        let held: Vec<_> = (0..50).map(|_| Reservation::new().unwrap()).collect();
        let ports: HashSet<_> = held.iter().map(Reservation::port).collect();
        assert_eq!(ports.len(), held.len());
        assert!(ports.iter().all(|port| RANGE.contains(port)));
    }
}
