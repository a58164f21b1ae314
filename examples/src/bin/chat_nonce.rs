//! A chat in which a client may send a message again without posting it twice. See
//! [`idem_examples::chat`].
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

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use idem_core::{BoxError, Idempotency};
use idem_examples::chat::{self, Chat, Window};
use idem_examples::effects::Effects;
use idem_redis::{Config, NonceWindow, RedisStore};
use tokio::net::TcpListener;

/// A tiny chat in which a client may send a message again, over HTTP or over a WebSocket, without
/// posting it twice.
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

#[tokio::main]
async fn main() -> ExitCode {
    match serve(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("chat_nonce: {reason}");
            ExitCode::from(2)
        }
    }
}

async fn serve(args: Args) -> Result<(), BoxError> {
    let folder = tempfile::Builder::new().prefix("idem-").tempdir()?;
    let embedded = format!("sqlite:{}", folder.path().join("chat.db").display());
    let url = args.store.as_deref().unwrap_or(&embedded);
    let chat = Chat::new(window(url, &args).await?).with_delay(args.delay);
    let listener = TcpListener::bind(args.listen)
        .await
        .map_err(|error| format!("--listen {}: {error}", args.listen))?;
    println!("listening on http://{}", listener.local_addr()?);
    Ok(chat::serve(listener, chat).await?)
}

/// Redis has its own window; a Redis cluster and all other stores keep a record for each nonce.
async fn window(url: &str, args: &Args) -> Result<Window, BoxError> {
    let is_redis = url.starts_with("redis") || url.starts_with("valkey");
    if is_redis && !url.contains(',') {
        let config = Config::new().with_namespace(args.namespace.clone())?;
        let store = RedisStore::connect(url, config).await?;
        let window = NonceWindow::new(store).with_window(args.window);
        return Ok(window.with_wait(args.wait).into());
    }
    let store = Effects::open(url, &args.namespace).await?.store();
    let idempotency = Idempotency::new(store);
    Ok(Window::in_store(idempotency, args.window, args.wait))
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
        for bad in [
            "",
            "5",
            "s",
            "-5s",
            "1.5s",
            "5m",
            "5 s",
            "99999999999999999999s",
        ] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
