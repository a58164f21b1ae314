//! Tests that need their own server: one that is killed, or that gets a minute to delete expired
//! records.

use std::process::ExitCode;
use std::time::Duration;

use idem_core::{BoxError, ClaimRequest, Fingerprint, IdempotencyStore, Key, Response};
use idem_mongo::mongodb::Collection;
use idem_mongo::mongodb::bson::{DateTime, Document, doc};
use idem_mongo::{Config, MongoStore};
use idem_servers::{Options, start_private};
use idem_stores::no_completion_is_lost;
use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::Runtime;
use tokio::time::Instant;

const HOUR: Duration = Duration::from_secs(3600);

/// The server's TTL monitor runs each minute.
const TTL_TIMEOUT: Duration = Duration::from_secs(150);

fn main() -> ExitCode {
    let missing = idem_servers::no_private("mongo");
    let trials = [
        trial(
            "no_acknowledged_completion_is_lost_when_the_server_is_killed",
            crash,
        ),
        trial(
            "the_server_deletes_what_has_expired_and_nothing_else",
            expiry,
        ),
    ];
    let trials = trials.map(|trial| trial.with_ignored_flag(missing)).into();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trial(name: &str, test: fn(&Runtime) -> Result<(), BoxError>) -> Trial {
    Trial::test(name, move || {
        let runtime = Runtime::new().map_err(|error| Failed::from(error.to_string()))?;
        test(&runtime).map_err(|error| Failed::from(format!("{error}: {:?}", error.source())))
    })
}

fn request(id: impl AsRef<str>) -> ClaimRequest {
    let key = Key::new("tenant", "payments.create", id).expect("a valid id");
    ClaimRequest::new(key, Fingerprint::raw("request")).with_lease(HOUR)
}

async fn store(url: &str) -> Result<MongoStore, BoxError> {
    let store = MongoStore::connect(url, Config::new()).await?;
    store.migrate().await?;
    Ok(store)
}

fn crash(runtime: &Runtime) -> Result<(), BoxError> {
    no_completion_is_lost(runtime, "mongo", async |url| store(&url).await)
}

/// The server acts on the index that `migrate` creates.
fn expiry(runtime: &Runtime) -> Result<(), BoxError> {
    let server = start_private("mongo", &Options::new())?;
    runtime.block_on(async {
        let store = store(server.url()).await?;
        let [expired, live] = ["expired", "live"].map(request);
        let claim = store.claim(&expired).await?.acquired().ok_or("fresh")?;
        let shortest = Duration::from_millis(1);
        store
            .complete(&claim, &Response::new(200, "x"), shortest)
            .await?;
        let held = store.claim(&live).await?.acquired().ok_or("fresh")?;
        let database = store.client().database("idem");
        let records = database.collection::<Document>("idem_records");
        // Skips the minute that the server otherwise waits.
        let due = doc! { "$set": { "purge_at": DateTime::now() } };
        let key = doc! { "_id": expired.key().path() };
        records.update_one(key, due).await?;
        until_gone(&records, &expired).await?;
        assert_eq!(
            store.delete_expired(10).await?,
            0,
            "nothing was left to delete"
        );
        store
            .complete(&held, &Response::new(200, "x"), HOUR)
            .await?;
        store.verify().await?;
        let again = store.claim(&expired).await?.acquired().ok_or("fresh")?;
        assert!(again.token() > claim.token(), "the token has to grow");
        Ok(())
    })
}

async fn until_gone(
    records: &Collection<Document>,
    request: &ClaimRequest,
) -> Result<(), BoxError> {
    let deadline = Instant::now() + TTL_TIMEOUT;
    let key = doc! { "_id": request.key().path() };
    while records.find_one(key.clone()).await?.is_some() {
        if Instant::now() > deadline {
            return Err("the server does not delete what has expired".into());
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    Ok(())
}
