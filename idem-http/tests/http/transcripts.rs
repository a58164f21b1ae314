//! The transcripts beside the example are the output of `curl`. `IDEM_BLESS=1` writes them again.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::process::Command;

use crate::support::until;

#[path = "../../examples/axum/app.rs"]
mod example;

const TRANSCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/axum/transcripts.txt");
const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

const PAYMENT: &str = "curl -i localhost:3000/payments -H 'Authorization: Bearer token-of-alice' \\\n  \
    -H 'Content-Type: application/json'";
const REPORT: &str = "curl -i localhost:3000/reports -X POST -H 'Authorization: Bearer token-of-alice' \\\n  \
    -H 'Idempotency-Key: \"report-7\"'";

/// Returns the text before each command, and the command.
fn commands() -> Vec<(&'static str, String)> {
    let pay = |key: &str, body: &str| format!("{PAYMENT}{key} -d '{body}'");
    let with_key = " \\\n  -H 'Idempotency-Key: \"8e03978e-40d5\"'";
    let bare = " \\\n  -H 'Idempotency-Key: 8e03978e-40d5'";
    let malformed = " \\\n  -H 'Idempotency-Key: \"8e03978e-40d5'";
    let body = "{\"amount\": 1250, \"currency\": \"EUR\"}";
    vec![
        ("The service handles a first request:", pay(with_key, body)),
        (
            "Its retry gets the same answer, without the cookie. The key may be bare, and the JSON written in another way:",
            pay(bare, "{\"currency\":\"EUR\",\"amount\":1250.0}"),
        ),
        (
            "Another payment needs another key:",
            pay(with_key, "{\"amount\": 99, \"currency\": \"EUR\"}"),
        ),
        ("This route requires a key:", pay("", body)),
        (
            "A key is a string in double quotes, or has none at all:",
            pay(malformed, body),
        ),
        (
            "A report takes five seconds, and the client gives up after one:",
            REPORT.replace("curl -i", "curl -i --max-time 1"),
        ),
        (
            "A retry that comes too early gets a conflict:",
            REPORT.to_owned(),
        ),
        (
            "A later one gets the answer, because the handler finished the report:",
            REPORT.to_owned(),
        ),
    ]
}

async fn run(command: &str, address: SocketAddr) -> String {
    let command = command
        .replace("curl -i", "curl -isS --noproxy '*'")
        .replace("localhost:3000", &address.to_string());
    let output = Command::new("sh").args(["-c", &command]).output().await;
    let output = output.expect("a shell");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said).unwrap().replace("\r\n", "\n");
    assert!(
        !said.contains("not found"),
        "the transcripts need curl: {said}"
    );
    said
}

/// Replaces the parts that differ each time.
fn masked(said: &str) -> String {
    let lines = said.lines().map(|line| match line.split_once(": ") {
        Some((name @ ("date" | "idempotency-first-answered"), _)) => format!("{name}: {DATE}"),
        Some(("retry-after", _)) => "retry-after: 1".to_owned(),
        Some(("curl", _)) => mask_number(line, "after ", 1000),
        _ => mask_number(line, "\"retryAfter\":", 1),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Replaces the number that follows `before`.
fn mask_number(line: &str, before: &str, number: u32) -> String {
    match line.split_once(before) {
        Some((start, rest)) => {
            let end = rest.trim_start_matches(|digit: char| digit.is_ascii_digit());
            format!("{start}{before}{number}{end}")
        }
        None => line.to_owned(),
    }
}

async fn transcripts() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = example::app(Duration::from_secs(5));
    tokio::spawn(async move { axum::serve(listener, app).await });
    let mut text = String::new();
    for (title, command) in commands() {
        if title.starts_with("A later") {
            let is_ready = async || !run(&command, address).await.starts_with("HTTP/1.1 409");
            until(is_ready).await;
        }
        let said = masked(&run(&command, address).await);
        text += &format!("# {title}\n$ {command}\n{said}\n\n");
    }
    text
}

#[tokio::test]
async fn the_transcripts_are_curls_output() {
    let made = transcripts().await;
    if std::env::var_os("IDEM_BLESS").is_some() {
        std::fs::write(TRANSCRIPTS, made).unwrap();
    } else {
        let written = std::fs::read_to_string(TRANSCRIPTS).unwrap();
        assert_eq!(written, made, "IDEM_BLESS=1 rewrites them");
    }
}
