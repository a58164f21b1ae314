//! [`no_completion_is_lost`]: a durable server that is killed amid its traffic.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use idem_core::{
    BoxError, Claim, ClaimRequest, Fingerprint, IdempotencyStore, IdempotencyStoreExt, Key, Record,
    Response,
};
use idem_servers::{Durability, Instance, Options, start_private};
use tokio::runtime::Runtime;

const HOUR: Duration = Duration::from_secs(3600);

/// Completions of a round before the server is killed.
const ENOUGH: usize = 50;

/// How long a round waits for them, however slow the disk is.
const LONGEST: Duration = Duration::from_secs(60);

/// Kills a private server three times amid completions, and checks each time that no acknowledged
/// one is lost. The same store goes on, as an application's does.
///
/// # Errors
///
/// The server's or the store's error; an error when a completion is lost.
///
/// # Panics
///
/// Panics when a record differs from what was acknowledged.
pub fn no_completion_is_lost<S: IdempotencyStore + 'static>(
    runtime: &Runtime,
    server: &str,
    open: impl AsyncFnOnce(String) -> Result<S, BoxError>,
) -> Result<(), BoxError> {
    let durable = Options::new().with_durability(Durability::Durable);
    let mut server: Instance = start_private(server, &durable)?;
    let store = Arc::new(runtime.block_on(open(server.url().to_owned()))?);
    let mut acknowledged = Vec::new();
    for round in 0..3 {
        let count = Arc::new(AtomicUsize::new(0));
        let writers: Vec<_> = (0..8)
            .map(|writer| {
                let (store, count) = (Arc::clone(&store), Arc::clone(&count));
                runtime.spawn(complete_until_killed(store, round, writer, count))
            })
            .collect();
        let begun = Instant::now();
        while count.load(Ordering::SeqCst) < ENOUGH {
            if begun.elapsed() > LONGEST {
                return Err(format!("fewer than {ENOUGH} completions in {LONGEST:?}").into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        server.kill()?;
        for writer in writers {
            acknowledged.extend(runtime.block_on(writer)?);
        }
        server.restart()?;
        runtime.block_on(check(&*store, &acknowledged))?;
    }
    Ok(())
}

fn request(id: impl AsRef<str>) -> ClaimRequest {
    let key = Key::new("tenant", "payments.create", id).expect("a valid id");
    ClaimRequest::new(key, Fingerprint::raw("request")).with_lease(HOUR)
}

/// Returns the claims whose completion the store has acknowledged to this writer.
async fn complete_until_killed(
    store: Arc<impl IdempotencyStore>,
    round: u32,
    writer: u32,
    count: Arc<AtomicUsize>,
) -> Vec<Claim> {
    let mut acknowledged = Vec::new();
    for number in 0.. {
        let request = request(format!("{round}-{writer}-{number}"));
        let Ok(outcome) = store.claim(&request).await else {
            break;
        };
        let claim = outcome.acquired().expect("a fresh key");
        let response = Response::new(200, request.key().id().to_owned());
        if store.complete(&claim, &response, HOUR).await.is_err() {
            break;
        }
        acknowledged.push(claim);
        count.fetch_add(1, Ordering::SeqCst);
    }
    acknowledged
}

async fn check(store: &impl IdempotencyStore, acknowledged: &[Claim]) -> Result<(), BoxError> {
    for claim in acknowledged {
        // The store's connections are dead; a caller repeats the call.
        let duplicate = request(claim.key().id());
        let limit = Duration::from_secs(30);
        let answer = store.claim_retrying(&duplicate, limit).await?;
        assert_eq!(answer.name(), "completed", "an acknowledged completion");
        let Some(Record::Completed(record)) = store.get(claim.key()).await? else {
            return Err("an acknowledged completion is lost".into());
        };
        assert_eq!(record.info.token, claim.token());
        assert_eq!(record.response.body(), claim.key().id());
    }
    Ok(())
}
