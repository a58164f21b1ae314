//! NATS with JetStream.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use idem_servers::{Options, start_private};

use crate::{Outcome, Run, cases};

pub(crate) const TRIALS: &[(&str, Run)] = cases![
    nats_says_its_name_and_version,
    nats_keeps_messages_over_a_kill_and_a_restart,
];

/// Sends a request and returns the answer's payload.
fn ask(url: &str, subject: &str, payload: &str) -> Outcome<String> {
    let address = url.strip_prefix("nats://").ok_or("no NATS URL")?;
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let length = payload.len();
    write!(
        stream,
        "CONNECT {{\"verbose\":false}}\r\nSUB answer 1\r\nPUB {subject} answer {length}\r\n{payload}\r\n"
    )?;
    let mut lines = BufReader::new(stream).lines();
    loop {
        let line = lines.next().ok_or("the connection ended")??;
        if line.starts_with("MSG answer") {
            return Ok(lines.next().ok_or("the connection ended")??);
        }
    }
}

fn nats_says_its_name_and_version() -> Outcome {
    let server = start_private("nats", &Options::new())?;
    let product = server.product().to_string();
    assert!(product.starts_with("NATS 2."), "{product}");
    Ok(())
}

fn nats_keeps_messages_over_a_kill_and_a_restart() -> Outcome {
    let mut server = start_private("nats", &Options::new())?;
    let url = server.url().to_owned();
    let stream = r#"{"name":"orders","subjects":["orders"],"retention":"limits","storage":"file"}"#;
    let created = ask(&url, "$JS.API.STREAM.CREATE.orders", stream)?;
    assert!(created.contains(r#""name":"orders""#), "{created}");
    let published = ask(&url, "orders", "one")?;
    assert!(published.contains(r#""seq":1"#), "{published}");
    server.kill()?;
    server.restart()?;
    assert_eq!(server.url(), url);
    let kept = ask(&url, "$JS.API.STREAM.INFO.orders", "")?;
    assert!(kept.contains(r#""messages":1"#), "{kept}");
    Ok(())
}
