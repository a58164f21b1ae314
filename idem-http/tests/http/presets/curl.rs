//! `curl`, and what it writes.

use std::net::SocketAddr;
use std::sync::LazyLock;
use std::time::SystemTime;

use tokio::process::Command;

pub(super) const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

/// What `curl` wrote, without what differs between two runs.
pub(super) struct Said(pub(super) String);

/// When the clients of this process sent their requests first.
static FIRST_SENT: LazyLock<String> = LazyLock::new(|| httpdate::fmt_http_date(SystemTime::now()));

pub(super) async fn run(command: &str, address: SocketAddr) -> Said {
    let command = command
        .replace("curl -i", "curl -isS --noproxy '*'")
        .replace("localhost:3000", &address.to_string())
        .replace(DATE, &FIRST_SENT);
    let output = Command::new("sh").args(["-c", &command]).output().await;
    let output = output.expect("a shell");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said).unwrap().replace("\r\n", "\n");
    assert!(
        said.starts_with("HTTP/1.1 "),
        "the pages need curl, and a server that answers: {said}"
    );
    Said(masked(&said))
}

impl Said {
    pub(super) fn status(&self) -> u16 {
        self.0[9..12].parse().unwrap()
    }

    pub(super) fn body(&self) -> &str {
        self.0.split_once("\n\n").map_or("", |(_, body)| body)
    }
}

/// Returns the text with fixed dates and pauses.
fn masked(said: &str) -> String {
    let (head, body) = said.split_once("\n\n").unwrap_or((said, ""));
    let lines = head.lines().map(|line| match line.split_once(": ") {
        Some((name @ ("date" | "idempotency-first-answered"), _)) => format!("{name}: {DATE}"),
        Some((name @ "retry-after", _)) => format!("{name}: 1"),
        _ => line.to_owned(),
    });
    let mut body = body.to_owned();
    for seconds in 2..10 {
        for name in [r#"retryAfter":"#, r#"retry_after":"#, r#"retry_after\":"#] {
            body = body.replace(&format!("{name}{seconds}"), &format!("{name}1"));
        }
    }
    format!("{}\n\n{body}", lines.collect::<Vec<_>>().join("\n"))
}
