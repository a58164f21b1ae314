//! `idem serve`, on SQLite.

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use support::{File, claimed, key};

/// A console that runs; killed when it is dropped.
struct Console {
    child: Child,
    said: Value,
}

impl Console {
    fn start(file: &File, args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_idem"));
        command
            .env("IDEM_STORE", file.url())
            .env_remove("IDEM_CONSOLE_TOKEN");
        let args = ["--json", "serve", "--address", "127.0.0.1:0"]
            .iter()
            .chain(args);
        let child = command.args(args).stdout(Stdio::piped()).spawn();
        let mut child = child.unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        let said = serde_json::from_str(&line).unwrap();
        Self { child, said }
    }

    /// Returns the answer to a request for the overview.
    fn overview(&self, header: &str) -> String {
        let address = self.said["address"].as_str().unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let request =
            format!("GET / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{header}\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn the_console_is_served_until_it_is_interrupted() {
    let file = File::new().await;
    drop(claimed(&file.store, &key("stuck-1")).await);
    let mut console = Console::start(&file, &[]);
    assert_eq!(console.said["token"], Value::Null);
    let overview = console.overview("");
    assert!(overview.starts_with("HTTP/1.1 200"), "{overview}");
    assert!(overview.contains("stuck-1"), "{overview}");
    assert!(!overview.contains("may change"), "{overview}");
    if cfg!(unix) {
        let id = console.child.id().to_string();
        let sent = Command::new("kill").args(["-INT", &id]).status();
        assert!(sent.unwrap().success());
        assert!(console.child.wait().unwrap().success());
    }
}

#[tokio::test]
async fn a_console_that_may_change_needs_its_token() {
    let file = File::new().await;
    let console = Console::start(&file, &["--allow-changes"]);
    let token = console.said["token"].as_str().unwrap();
    assert!(console.overview("").starts_with("HTTP/1.1 401"));
    let overview = console.overview(&format!("Authorization: Bearer {token}\r\n"));
    assert!(overview.starts_with("HTTP/1.1 200"), "{overview}");
    let wrong = console.overview("Authorization: Bearer 0123456789abcdef\r\n");
    assert!(wrong.starts_with("HTTP/1.1 401"), "{wrong}");
}

#[tokio::test]
async fn options_that_cannot_hold_are_explained() {
    let file = File::new().await;
    let token = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(token.path(), "short").unwrap();
    let token = token.path().to_str().unwrap();
    for (args, complaint) in [
        (&["serve", "--token-file", token][..], "at least 16"),
        (&["serve", "--token-file", "/no/such/file"], "/no/such/file"),
        (&["serve", "--metrics", "https://a/metrics"], "http://"),
        (&["serve", "--proxy-header", "no header"], "header"),
    ] {
        file.idem(args).ends(2).complains(complaint);
    }
}
