//! Servers that are killed.

use std::time::Duration;

use idem_core::{IdempotencyStore, IdempotencyStoreExt, Response};
use idem_redis::{Config, RedisStore};
use idem_servers::{Options, start_private};
use idem_stores::no_completion_is_lost;
use tokio::runtime::Runtime;

use crate::own::{HOUR, Outcome, request};

/// `appendonly yes`, `appendfsync always`.
pub(crate) fn durable(runtime: &Runtime, server: &str) -> Outcome {
    let open = async |url: String| Ok(RedisStore::connect(&url, Config::new()).await?);
    no_completion_is_lost(runtime, server, open)
}

/// No `appendonly`, no `save`: the case that the README warns of.
pub(crate) fn forgetful(runtime: &Runtime, server: &str) -> Outcome {
    let mut server = start_private(server, &Options::new())?;
    let store = runtime.block_on(RedisStore::connect(server.url(), Config::new()))?;
    let (done, held) = (request("done"), request("held"));
    let before = runtime.block_on(async {
        let claim = store.claim(&done).await?.acquired().ok_or("a fresh key")?;
        let response = Response::new(200, "done");
        store.complete(&claim, &response, HOUR).await?;
        let held = store.claim(&held).await?.acquired();
        Outcome::Ok(held.ok_or("a fresh key")?)
    })?;
    server.kill()?;
    server.restart()?;
    runtime.block_on(async {
        let limit = Duration::from_secs(30);
        let again = store.claim_retrying(&request("done"), limit).await?;
        assert_eq!(again.name(), "acquired", "the work runs once more");
        let again = store.claim(&request("held")).await?;
        let again = again.acquired().ok_or("the claim is lost")?;
        assert!(again.token() > before.token(), "the old holder is fenced");
        let error = store.release(&before).await.unwrap_err();
        assert!(error.is_claim_lost(), "{error}");
        Ok(())
    })
}
