//! The sessions of a server, as the kernel knows them.

use std::fs;
use std::time::Duration;

use idem_core::BoxError;

use super::shell::retry;

/// How long a server may work on for callers that are gone. Cuts one after another let the kernel wait
/// longer before it sends an answer again, up to 120 s (`TCP_RTO_MAX` of Linux); only then does the
/// server learn that nobody is there.
const TIME_TO_END: Duration = Duration::from_secs(180);

/// The states of a socket that some process of the server still has: established, and closed by the
/// other side only.
const OPEN: [&str; 2] = ["01", "08"];

/// Waits until the server at this port has closed every connection: what its dead callers had asked
/// for has then taken effect or never will.
pub(crate) fn wait_until_closed(port: u16) -> Result<(), BoxError> {
    wait_until_left(port, 0)
}

/// The same, except for so many connections of other servers.
pub(crate) fn wait_until_left(port: u16, others: usize) -> Result<(), BoxError> {
    retry(TIME_TO_END, || {
        let table = fs::read_to_string("/proc/net/tcp")?;
        match sessions(&table, port) {
            open if open <= others => Ok(()),
            open => Err(format!("the server keeps {open} sessions, of dead callers too").into()),
        }
    })
}

/// Counts the open connections in the kernel's table whose own side is this port.
fn sessions(table: &str, port: u16) -> usize {
    let own = format!(":{port:04X}");
    let lines = table.lines().skip(1).map(str::split_whitespace);
    lines
        .filter_map(|mut words| Some((words.nth(1)?, words.nth(1)?)))
        .filter(|(local, state)| local.ends_with(&own) && OPEN.contains(state))
        .count()
}

#[cfg(test)]
mod tests {
    use super::sessions;

    #[test]
    fn open_sessions_are_told_from_listeners_and_closed_ones() {
        let table = "  sl  local_address rem_address   st tx_queue\n\
            0: 0100007F:1F90 00000000:0000 0A 00000000:00000000\n\
            1: 0100007F:1F90 0100007F:C350 01 00000000:00000000\n\
            2: 0100007F:1F90 0100007F:C351 08 00000000:00000000\n\
            3: 0100007F:1F90 0100007F:C352 06 00000000:00000000\n\
            4: 0100007F:C350 0100007F:1F90 01 00000000:00000000\n";
        assert_eq!(sessions(table, 8080), 2);
        assert_eq!(sessions(table, 9090), 0);
    }
}
