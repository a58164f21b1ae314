//! A chat in which a client may send a message again without posting it twice.
//!
//! ```console
//! $ cargo run -p idem-examples --bin chat_nonce
//! listening on http://127.0.0.1:3000
//! $ curl -i http://127.0.0.1:3000/channels/tea/messages -H 'authorization: Bearer ada-token' \
//!     -d '{"content": "Anyone for tea?", "nonce": 7, "enforce_nonce": true}'
//! HTTP/1.1 201 Created
//! {"id":"1795307392183478493","author":"ada","nonce":"7","channel":"tea","content":"Anyone for tea?"}
//! $ # the same again, with "nonce": "7"
//! HTTP/1.1 200 OK
//! {"id":"1795307392183478493","author":"ada","nonce":"7","channel":"tea","content":"Anyone for tea?"}
//! ```
//!
//! The client creates a *nonce* for each message and requests its enforcement. Without an answer,
//! it sends the same again. For five minutes the author's second message with this nonce is not
//! posted, and the first one is the answer. `Chat::post` uses a [`Window`]: Redis's
//! [`NonceWindow`](idem_redis::NonceWindow), or records in another store.
//!
//! | | |
//! | --- | --- |
//! | `POST /channels/{channel}/messages` | `{"content", "nonce", "enforce_nonce"}`; 201, or 200 for a message posted before |
//! | `GET /channels/{channel}/messages` | the messages of this process |
//!
//! Both require `authorization: Bearer ada-token` (or `bob-token`).
//!
//! Messages are in memory, and each process has its own; a real chat stores them in a database.

mod chat;
mod http;
mod window;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use clap::Parser;
use idem_core::BoxError;
use idem_storm::report::exit;
use tokio::net::TcpListener;

use chat::Chat;
use window::Window;

/// A tiny chat in which a client may send a message again without posting it twice.
#[derive(Debug, Parser)]
#[command(name = "chat_nonce", version, max_term_width = 100)]
struct Args {
    /// Where nonces are stored: `redis://[USER:PASSWORD@]HOST:PORT` (Redis 6.2 or later, or
    /// Valkey), or another of the URLs of `storm`. Default: a SQLite file in a temporary folder
    #[arg(long, value_name = "URL")]
    store: Option<String>,

    /// The prefix of the nonces' keys or tables
    #[arg(long, value_name = "NAME", default_value = "chat")]
    namespace: String,

    /// The address to serve at; port 0 is any free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:3000")]
    listen: SocketAddr,

    /// How long a nonce prevents a second message
    #[arg(long, value_name = "TIME", default_value = "300s", value_parser = duration)]
    window: Duration,

    /// How long a duplicate waits for a message that is being posted
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    wait: Duration,

    /// How long storing a message takes: a long time shows what happens meanwhile
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    delay: Duration,
}

async fn serve(args: Args) -> Result<bool, BoxError> {
    let (url, _folder) = match &args.store {
        Some(url) => (url.clone(), None),
        None => {
            let folder = tempfile::Builder::new().prefix("idem-").tempdir()?;
            let path = folder.path().join("chat.db");
            (format!("sqlite:{}", path.display()), Some(folder))
        }
    };
    let chat = Arc::new(Chat {
        window: Window::open(&url, &args).await?,
        messages: Mutex::default(),
        delay: args.delay,
    });
    let listener = TcpListener::bind(args.listen).await;
    let listener = listener.map_err(|error| format!("--listen {}: {error}", args.listen))?;
    println!("listening on http://{}", listener.local_addr()?);
    let messages = get(http::list).post(http::post);
    let router = Router::new().route("/channels/{channel}/messages", messages);
    // After Ctrl-C the temporary folder is removed.
    tokio::select! {
        served = axum::serve(listener, router.with_state(chat)).into_future() => served?,
        interrupted = tokio::signal::ctrl_c() => interrupted?,
    }
    Ok(true)
}

#[tokio::main]
async fn main() -> ExitCode {
    exit("chat_nonce", serve(Args::parse()).await)
}

fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    match (digits.parse(), &text[digits.len()..]) {
        (Ok(number), "ms") => Ok(Duration::from_millis(number)),
        (Ok(number), "s") => Ok(Duration::from_secs(number)),
        _ => Err("a number of `s` or `ms` is needed, such as 300s".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn definition_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn times_have_a_unit() {
        assert_eq!(duration("300ms"), Ok(Duration::from_millis(300)));
        assert_eq!(duration("5s"), Ok(Duration::from_secs(5)));
        let overflow = "99999999999999999999s";
        for bad in ["", "5", "s", "-5s", "1.5s", "5m", "5 s", overflow] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
