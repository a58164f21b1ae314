//! A receiver of GitHub's webhooks that handles each event once, and a difficult sender: every
//! event of `data/github-webhooks.ndjson` at least once, shuffled, in parallel, some forged, some
//! by a sender that disconnects before the answer.

mod events;
mod sender;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{Request, Response};
use axum::routing::post;
use clap::Parser;
use futures_util::{StreamExt, TryStreamExt, stream};
use idem_core::{BoxError, Idempotency, IdempotencyStore, MemoryStore, Work};
use idem_examples::http::serve;
use idem_storm::effects::{Effects, StoreArgs};
use idem_storm::report::{Report, exit};
use idem_webhooks::{Event, Provider, Receiver, Verifier};

use sender::{SECRET, Sender, deliveries};

/// Receives GitHub's webhooks, each delivered at least once, and checks that each had one effect.
///
/// Exit status 0: all had one; 1: some had not, they are listed; 2: the run could not be made.
#[derive(Debug, Parser)]
#[command(name = "webhook", version, max_term_width = 100)]
struct Args {
    #[command(flatten)]
    store: StoreArgs,

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
struct App {
    effects: Effects,
    receiver: Receiver,
    is_sabotaged: bool,
}

impl App {
    fn new(effects: Effects, is_sabotaged: bool) -> Result<Self, BoxError> {
        let verifier = Verifier::new(Provider::github(), SECRET)?;
        let receiver = Receiver::new(effects.store(), verifier, "octo-org")?;
        Ok(Self {
            receiver: receiver.with_versions(|event: &Event| events::version(event.body()))?,
            effects,
            is_sabotaged,
        })
    }

    /// `POST /github`. The answer is 2xx only for a recorded outcome.
    async fn github(State(app): State<Arc<Self>>, parts: Parts, body: Bytes) -> Response<Body> {
        let request = Request::from_parts(parts, body);
        let handler = async |event: Event, work: Work| app.handle(&event, &work).await;
        let answer = match app.is_sabotaged {
            false => app.receiver.receive(&request, handler).await,
            true => app.forgetful().receive(&request, handler).await,
        };
        answer.response().map(Body::from)
    }

    /// The effect of an event: a row, committed together with the event's record.
    async fn handle(&self, event: &Event, work: &Work) -> Result<(), BoxError> {
        if self.is_sabotaged {
            return self.effects.append(event.id()).await;
        }
        let handled = Receiver::handled()?;
        self.effects.commit(work, event.id(), handled).await
    }

    fn forgetful(&self) -> Receiver {
        let store: Arc<dyn IdempotencyStore> = Arc::new(MemoryStore::new());
        let receiver = self.receiver.clone();
        receiver.with_idempotency(Idempotency::new(store))
    }
}

async fn run(args: Args) -> Result<bool, BoxError> {
    let events = events::read(&args.input)?;
    let seed = args.seed.unwrap_or_else(|| rand::random::<u32>().into());
    let app = Arc::new(App::new(args.store.open("webhook").await?, args.sabotage)?);
    let router = Router::new().route("/github", post(App::github));
    let address = serve(router.with_state(Arc::clone(&app))).await?;
    let sender = Sender::new(&events, address)?;

    let (start, deliveries) = (Instant::now(), deliveries(events.len(), seed));
    let deliver = |delivery| sender.deliver(delivery);
    stream::iter(deliveries.iter().copied())
        .map(deliver)
        .buffer_unordered(args.concurrency.max(1))
        .try_collect::<()>()
        .await?;
    let tally = sender.into_tally();
    let effects = app.effects.all().await?;

    let mut report = Report::new(format!(
        "{}, {} events, {} deliveries at once, seed {seed}",
        app.effects.product().await?,
        events.len(),
        args.concurrency
    ));
    let shuffled = "each event one to four times, shuffled";
    report.count("deliveries", deliveries.len() as u64, shuffled);
    let not_refused = "one of each event that was not refused for its version";
    report.count("effects", effects.len() as u64, not_refused);
    for ((status, text), times) in &tally.answers {
        report.count(&status.to_string(), *times, text);
    }
    let sent_again = "before the answer came; sent again";
    report.count("hung up", tally.hung_up, sent_again);
    report.time("elapsed", start.elapsed(), "");
    events::audit(&mut report, &events, &effects, &tally);
    app.effects.remove().await?;
    Ok(report.print(
        "Every event had one effect, or was refused because a later one had come.",
        "Not every event had one effect.",
    ))
}

#[tokio::main]
async fn main() -> ExitCode {
    exit("webhook", run(Args::parse()).await)
}
