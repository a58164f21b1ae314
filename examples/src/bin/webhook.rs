//! A receiver of GitHub's webhooks that handles each event once, and a difficult sender: every
//! event of `data/github-webhooks.ndjson` at least once, shuffled, in parallel, some forged.
//!
//! ```console
//! $ cargo run -p idem-examples --bin webhook
//! ```

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Response};
use axum::routing::post;
use clap::Parser;
use idem_core::{BoxError, IdempotencyStore, MemoryStore, Work};
use idem_examples::effects::Effects;
use idem_examples::webhook::{Copies, Payload, Report, SECRET, Sender, audit, read};
use idem_webhooks::{Event, Provider, Receiver, Verifier};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Receives GitHub's webhooks, each delivered at least once, and checks that each had one effect.
///
/// Exit status 0: all had one; 1: some had not, they are listed; 2: the run could not be made.
#[derive(Debug, Parser)]
#[command(name = "webhook", version, max_term_width = 100)]
struct Args {
    /// Where events and effects are stored: the URLs of `storm`. Default: a SQLite file in a
    /// temporary folder
    #[arg(long, value_name = "URL")]
    store: Option<String>,

    /// The events, one JSON object per line: `event`, `payload`
    #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/data/github-webhooks.ndjson"))]
    input: PathBuf,

    /// Number of concurrent deliveries
    #[arg(long, value_name = "N", default_value_t = 16)]
    concurrency: usize,

    /// The same seed: the same deliveries in the same order
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Forgets every event at once, to show that the check finds the errors
    #[arg(long)]
    sabotage: bool,
}

/// The state that the handlers share.
#[derive(Debug)]
struct App {
    effects: Effects,
    receiver: Receiver,
    is_sabotaged: bool,
}

impl App {
    fn new(effects: Effects, is_sabotaged: bool) -> Result<Self, BoxError> {
        let verifier = Verifier::new(Provider::GitHub, SECRET)?;
        let version = |event: &Event| Payload::version(event.body());
        let receiver = Receiver::new(effects.store(), verifier, "octo-org")?;
        Ok(Self {
            receiver: receiver.with_versions(version)?,
            effects,
            is_sabotaged,
        })
    }

    /// `POST /github`. The answer is 2xx only for a recorded outcome.
    async fn github(
        State(app): State<Arc<Self>>,
        headers: HeaderMap,
        body: Bytes,
    ) -> Response<Body> {
        let handler = async |event: Event, work: Work| app.handle(&event, &work).await;
        let answer = match app.is_sabotaged {
            false => app.receiver.receive(&headers, body, handler).await,
            true => app.forgetful().receive(&headers, body, handler).await,
        };
        answer.response().map(Body::from)
    }

    /// The effect of an event: a row, committed together with the event's record.
    async fn handle(&self, event: &Event, work: &Work) -> Result<(), BoxError> {
        let topic = event.topic().unwrap_or("?");
        if self.is_sabotaged {
            return self.effects.append(event.id(), topic).await;
        }
        let handled = Receiver::handled()?;
        self.effects.commit(work, event.id(), topic, handled).await
    }

    fn forgetful(&self) -> Receiver {
        let store: Arc<dyn IdempotencyStore> = Arc::new(MemoryStore::new());
        let idempotency = idem_core::Idempotency::new(store);
        self.receiver.clone().with_idempotency(idempotency)
    }
}

async fn run(args: Args) -> Result<ExitCode, BoxError> {
    let events = read(&args.input)?;
    let seed = args.seed.unwrap_or_else(|| rand::random::<u32>().into());
    let effects = Effects::create(args.store.as_deref(), "webhook").await?;
    let product = effects.product().await?;
    let app = Arc::new(App::new(effects, args.sabotage)?);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let sender = Sender::new(events.clone(), listener.local_addr()?)?;
    let router = Router::new().route("/github", post(App::github));
    let server = axum::serve(listener, router.with_state(Arc::clone(&app)));
    let server = tokio::spawn(server.into_future());

    let (start, Copies(deliveries)) = (Instant::now(), Copies::draw(events.len(), seed));
    let permits = Arc::new(Semaphore::new(args.concurrency.max(1)));
    let mut under_way = JoinSet::new();
    for delivery in &deliveries {
        let permit = Arc::clone(&permits).acquire_owned().await?;
        let call = sender.clone().deliver(*delivery);
        under_way.spawn(async move { call.await.map(|()| drop(permit)) });
    }
    while let Some(delivered) = under_way.join_next().await {
        delivered??;
    }
    let all = app.effects.all().await?;
    let report = Report {
        product,
        events: events.len(),
        effects: all.len(),
        deliveries: deliveries.len(),
        concurrency: args.concurrency,
        seed,
        elapsed: start.elapsed(),
        wrong: audit(&events, &all, &sender.tally()),
        tally: sender.tally(),
    };
    server.abort();
    let _ = server.await;
    if let Some(app) = Arc::into_inner(app) {
        app.effects.remove().await?;
    }
    print!("{report}");
    Ok(ExitCode::from(u8::from(!report.wrong.is_empty())))
}

#[tokio::main]
async fn main() -> ExitCode {
    run(Args::parse()).await.unwrap_or_else(|reason| {
        eprintln!("webhook: {reason}");
        ExitCode::from(2)
    })
}
