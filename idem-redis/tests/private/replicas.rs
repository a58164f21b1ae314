//! A master and a replica, and the writes that a failover between them loses.

use std::convert::Infallible;
use std::time::Duration;

use idem_core::{
    Advance, BatchStore, Checkpoint, CheckpointStore, Claim, ClaimRequest, Effect, Error,
    ErrorKind, Fingerprint, Finish, IdempotencyStore, Nonce, Record, Response, WatermarkStore,
};
use idem_redis::redis::{self, Client};
use idem_redis::{Config, Enforce, NonceError, NonceWindow, Posted, RedisStore, Replicas};
use idem_servers::{Instance, Options, start_private};
use tokio::runtime::Runtime;

use crate::own::{HOUR, Outcome, command, eventually, query, request};
use crate::switch::Switch;

/// Long enough for a replica on a busy machine.
pub(crate) const WITHIN: Duration = Duration::from_secs(1);

/// With persistence off: nothing but replication is the subject.
pub(crate) struct Pair {
    pub(crate) master: Instance,
    pub(crate) replica: Instance,
}

impl Pair {
    pub(crate) fn start(runtime: &Runtime) -> Outcome<Self> {
        let pair = Self {
            master: start_private("redis", &Options::new())?,
            replica: start_private("redis", &Options::new())?,
        };
        runtime.block_on(follow(pair.replica.url(), pair.master.url()))?;
        Ok(pair)
    }

    /// Kills the master; the replica leads. Returns a store on it.
    fn fail_over(&mut self, runtime: &Runtime) -> Outcome<RedisStore> {
        self.master.kill()?;
        runtime.block_on(async {
            query::<()>(self.replica.url(), "REPLICAOF NO ONE").await?;
            Ok(RedisStore::connect(self.replica.url(), Config::new()).await?)
        })
    }
}

/// Makes a replica of it, and waits until it has everything.
pub(crate) async fn follow(replica: &str, master: &str) -> Outcome {
    let place = master.trim_start_matches("redis://").replace(':', " ");
    query::<()>(replica, &format!("REPLICAOF {place}")).await?;
    eventually("the replica has everything", async || {
        acknowledged(master).await.is_ok_and(|count| count == 1)
    })
    .await
}

/// Returns how many replicas acknowledge a write, and so all earlier writes.
async fn acknowledged(master: &str) -> Outcome<u32> {
    let client = Client::open(master)?;
    let mut connection = client.get_multiplexed_async_connection().await?;
    let (_, count): ((), u32) = redis::pipe()
        .add_command(command("SET probe 1 EX 60"))
        .add_command(command("WAIT 1 100"))
        .query_async(&mut connection)
        .await?;
    Ok(count)
}

pub(crate) fn waiting() -> Config {
    Config::new().with_replicas(Replicas::new(1, WITHIN))
}

async fn completed(store: &RedisStore, id: &str) -> Outcome<Claim> {
    let outcome = store.claim(&request(id)).await?;
    let claim = outcome.acquired().ok_or("a fresh key")?;
    let response = Response::new(200, id.to_owned());
    store.complete(&claim, &response, HOUR).await?;
    Ok(claim)
}

async fn is_completed(store: &RedisStore, id: &str) -> Outcome<bool> {
    let record = store.get(request(id).key()).await?;
    Ok(matches!(record, Some(Record::Completed(record)) if record.response.body() == id))
}

pub(crate) fn refused(runtime: &Runtime, _: &str) -> Outcome {
    let pair = Pair::start(runtime)?;
    runtime.block_on(async {
        let error = RedisStore::connect(pair.replica.url(), Config::new()).await;
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_eq!(error.effect(), Effect::None, "{error}");
        assert!(error.to_string().contains("connect_sentinel"), "{error}");
        Ok(())
    })
}

/// The case that the README warns of: a replica whose link is down misses what its master
/// acknowledges.
pub(crate) fn lost(runtime: &Runtime, _: &str) -> Outcome {
    let mut pair = Pair::start(runtime)?;
    let before = runtime.block_on(async {
        let store = RedisStore::connect(pair.master.url(), Config::new()).await?;
        let early = completed(&store, "early").await?;
        follow(pair.replica.url(), pair.master.url()).await?;
        query::<()>(pair.replica.url(), "REPLICAOF 127.0.0.1 1").await?;
        let _late = completed(&store, "late").await?;
        assert!(is_completed(&store, "late").await?, "it was acknowledged");
        Outcome::Ok(early)
    })?;
    let store = pair.fail_over(runtime)?;
    runtime.block_on(async {
        assert!(is_completed(&store, "early").await?);
        assert!(store.get(request("late").key()).await?.is_none(), "lost");
        let again = store.claim(&request("late")).await?;
        assert!(again.acquired().ok_or("runs once more")?.token() > before.token());
        Ok(())
    })
}

/// The case that the README warns of: a master that is cut off goes on, beside the promoted replica.
pub(crate) fn split(runtime: &Runtime, _: &str) -> Outcome {
    let pair = Pair::start(runtime)?;
    let (old, new) = (pair.master.url(), pair.replica.url());
    runtime.block_on(async {
        let store = RedisStore::connect(old, Config::new()).await?;
        let careful = RedisStore::connect(old, waiting()).await?;
        query::<()>(new, "REPLICAOF NO ONE").await?;
        let promoted = RedisStore::connect(new, Config::new()).await?;
        let here = store.claim(&request("both")).await?;
        let here = here.acquired().ok_or("a fresh key")?;
        let there = promoted.claim(&request("both")).await?;
        let there = there.acquired().ok_or("a second holder")?;
        let response = Response::new(200, "here");
        store.complete(&here, &response, HOUR).await?;

        let error = careful.claim(&request("careful")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_eq!(error.effect(), Effect::Unknown, "{error}");
        query::<()>(old, "CONFIG SET min-replicas-to-write 1").await?;
        let error = store.claim(&request("refused")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_eq!(error.effect(), Effect::None, "{error}");

        // The cut is over.
        follow(old, new).await?;
        let lost = promoted.complete(&here, &response, HOUR).await;
        assert!(lost.is_err_and(|error| error.is_claim_lost()));
        promoted.complete(&there, &response, HOUR).await?;
        Ok(())
    })
}

pub(crate) fn kept(runtime: &Runtime, _: &str) -> Outcome {
    let mut pair = Pair::start(runtime)?;
    let (acknowledged, released) = runtime.block_on(async {
        let store = RedisStore::connect(pair.master.url(), waiting()).await?;
        let mut acknowledged = Vec::new();
        for number in 0..50 {
            let _claim = completed(&store, &format!("single {number}")).await?;
            acknowledged.push(format!("single {number}"));
        }
        let ids: Vec<_> = (0..50).map(|number| format!("batch {number}")).collect();
        let requests: Vec<_> = ids.iter().map(request).collect();
        let mut completions = Vec::new();
        for (id, outcome) in ids.iter().zip(store.claim_many(&requests).await) {
            let claim = outcome?.acquired().ok_or("a fresh key")?;
            let (response, retention) = (Response::new(200, id.clone()), HOUR);
            completions.push(Finish::Complete {
                claim,
                response,
                retention,
            });
        }
        for done in store.finish_many(&completions).await {
            done?;
        }
        acknowledged.extend(ids);
        let outcome = store.claim(&request("released")).await?;
        let released = outcome.acquired().ok_or("a fresh key")?;
        store.release(&released).await?;
        Outcome::Ok((acknowledged, released))
    })?;
    let store = pair.fail_over(runtime)?;
    runtime.block_on(async {
        for id in &acknowledged {
            assert!(is_completed(&store, id).await?, "{id} is lost");
        }
        let next = store.claim(&request("released")).await?;
        let next = next.acquired().ok_or("it was released")?;
        assert!(next.token() > released.token());
        Ok(())
    })
}

fn is_short_of_replicas(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(error.effect(), Effect::Unknown, "{error}");
    // Of a batch it is the cause.
    let cause = std::error::Error::source(error).map(ToString::to_string);
    let returned = cause.unwrap_or_else(|| error.to_string());
    assert!(returned.contains("only 0 of 1 replicas"), "{returned}");
}

/// The replica is frozen. Nothing that needs it is acknowledged, on whatever connection it is
/// repeated.
pub(crate) fn unacknowledged(runtime: &Runtime, _: &str) -> Outcome {
    let mut pair = Pair::start(runtime)?;
    let url = pair.master.url().to_owned();
    let stores = async || {
        let store = RedisStore::connect(&url, waiting()).await?;
        Outcome::Ok((store, RedisStore::connect(&url, waiting()).await?))
    };
    let (store, other) = runtime.block_on(stores())?;
    let (done, released, renewed, fresh) = ("done", "released", "renewed", request("fresh"));
    let (source, point) = (fresh.key(), Checkpoint::new("half way", "there")?);
    let mut claims = Vec::new();
    for id in [done, released, renewed] {
        let outcome = runtime.block_on(store.claim(&request(id)))?;
        claims.push(outcome.acquired().ok_or("a fresh key")?);
    }
    pair.replica.freeze()?;
    let response = Response::new(200, done);
    runtime.block_on(async {
        for store in [&store, &other] {
            let error = store.complete(&claims[0], &response, HOUR).await;
            is_short_of_replicas(&error.unwrap_err());
            is_short_of_replicas(&store.release(&claims[1]).await.unwrap_err());
            is_short_of_replicas(&store.renew(&claims[2], 2 * HOUR).await.unwrap_err());
            is_short_of_replicas(&store.checkpoint(&claims[2], &point).await.unwrap_err());
            // The second time the answer is that nothing changes: that alone does not acknowledge
            // it.
            is_short_of_replicas(&store.advance(source, 7, HOUR).await.unwrap_err());
            is_short_of_replicas(&store.claim(&fresh).await.unwrap_err());
            for outcome in store.claim_many(std::slice::from_ref(&fresh)).await {
                is_short_of_replicas(&outcome.unwrap_err());
            }
        }
        // Answers that rest on what replicas do not have.
        is_short_of_replicas(&other.advance(source, 6, HOUR).await.unwrap_err());
        is_short_of_replicas(&other.claim(&request(done)).await.unwrap_err());
        for outcome in other.claim_many(&[request(done)]).await {
            is_short_of_replicas(&outcome.unwrap_err());
        }
        let another = ClaimRequest::new(source.clone(), Fingerprint::raw("another"));
        is_short_of_replicas(&other.claim(&another).await.unwrap_err());
        let different = Response::new(200, "different");
        let error = other.complete(&claims[0], &different, HOUR).await;
        is_short_of_replicas(&error.unwrap_err());
        let error = other.get(request(done).key()).await.unwrap_err();
        assert_eq!(error.effect(), Effect::None, "it is a read: {error}");
        // Nobody acts on that for good, so the call does not wait.
        assert_eq!(other.claim(&request("fresh")).await?.name(), "in_flight");
        Outcome::Ok(())
    })?;
    pair.replica.thaw()?;
    runtime.block_on(async {
        follow(pair.replica.url(), &url).await?;
        let (store, other) = stores().await?;
        store.complete(&claims[0], &response, HOUR).await?;
        other.release(&claims[1]).await?;
        let _renewed = other.renew(&claims[2], 2 * HOUR).await?;
        other.checkpoint(&claims[2], &point).await?;
        let unchanged = other.advance(source, 7, HOUR).await?;
        assert_eq!(unchanged, Advance::Unchanged);
        assert_eq!(other.claim(&fresh).await?.name(), "acquired", "its own");
        Outcome::Ok(())
    })?;
    let store = pair.fail_over(runtime)?;
    runtime.block_on(async {
        assert!(is_completed(&store, done).await?);
        let next = store.claim(&request(released)).await?;
        assert!(next.acquired().ok_or("it was released")?.token() > claims[1].token());
        assert_eq!(store.claim(&request(renewed)).await?.name(), "in_flight");
        assert_eq!(store.last_checkpoint(&claims[2]).await?, Some(point));
        assert_eq!(store.watermark(source).await?, Some(7));
        assert_eq!(store.claim(&request("fresh")).await?.name(), "in_flight");
        Ok(())
    })
}

/// One address, two servers: the connection to the demoted one still stands, and still answers.
pub(crate) fn demoted(runtime: &Runtime, _: &str) -> Outcome {
    let pair = Pair::start(runtime)?;
    let (master, replica) = (pair.master.url(), pair.replica.url());
    runtime.block_on(async {
        let switch = Switch::start(master).await?;
        let store = RedisStore::connect(switch.url(), Config::new()).await?;
        let _claim = completed(&store, "before").await?;
        follow(replica, master).await?;
        query::<()>(replica, "REPLICAOF NO ONE").await?;
        switch.turn_to(replica)?;
        follow(master, replica).await?;
        let _claim = completed(&store, "after").await?;
        assert!(is_completed(&store, "before").await?);
        let there = RedisStore::connect(replica, Config::new()).await?;
        assert!(is_completed(&there, "after").await?, "on the new master");
        // Back again: the same for a batch.
        query::<()>(master, "REPLICAOF NO ONE").await?;
        switch.turn_to(master)?;
        follow(replica, master).await?;
        for outcome in store.claim_many(&[request("a"), request("b")]).await {
            assert!(outcome?.acquired().is_some());
        }
        // No node leads.
        query::<()>(master, "REPLICAOF 127.0.0.1 1").await?;
        let error = store.claim(&request("c")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_eq!(error.effect(), Effect::None, "{error}");
        assert!(error.to_string().contains("replica"), "{error}");
        Ok(())
    })
}

/// The second read finds the nonce taken by this very try; the replica has not yet acknowledged it.
pub(crate) fn nonces(runtime: &Runtime, _: &str) -> Outcome {
    let mut pair = Pair::start(runtime)?;
    let (window, nonce) = runtime.block_on(async {
        let store = RedisStore::connect(pair.master.url(), waiting()).await?;
        let window = NonceWindow::new(store).with_wait(2 * WITHIN);
        Outcome::Ok((window, Nonce::new("one")?))
    })?;
    let post = |id: &'static str| {
        let (window, nonce) = (window.clone(), nonce.clone());
        async move {
            let keep = move || async move { Ok::<_, Infallible>(id.to_owned()) };
            window.post("ada", Some(&nonce), Enforce::Yes, keep).await
        }
    };
    pair.replica.freeze()?;
    let posted = runtime.block_on(post("alone"));
    assert!(
        matches!(&posted, Err(NonceError::Store(error)) if error.kind() == ErrorKind::Unavailable),
        "no replica knows of it: {posted:?}"
    );
    pair.replica.thaw()?;
    let posted = runtime.block_on(post("kept"))?;
    assert_eq!(posted, Posted::Now("kept".to_owned()));
    let after = NonceWindow::new(pair.fail_over(runtime)?);
    let again = move || async move { Ok::<_, Infallible>("again".to_owned()) };
    let posted = runtime.block_on(after.post("ada", Some(&nonce), Enforce::Yes, again))?;
    assert_eq!(posted, Posted::Before("kept".to_owned()));
    Ok(())
}
