//! [`RedisStore::verify`].

use std::time::Duration;

use idem_core::{
    AttemptId, Checkpoint, CheckpointStore, ClaimRequest, Effect, Error, ErrorKind, Fingerprint,
    IdempotencyStore, Key, Result, WatermarkStore,
};

use crate::info::Info;
use crate::link::Link;
use crate::scripts;
use crate::store::{RedisStore, at};

/// Shorter than any caller waits, longer than a round trip.
const SHORT: Duration = Duration::from_secs(10);

impl RedisStore {
    /// Checks the server as [`connect`](Self::connect) does, that its last attempts to save
    /// succeeded, and that the user has all rights that a store needs. It walks a key of its own,
    /// of a random id under the scope `idem-verify`, through every operation, with the configured
    /// replicas. The server forgets that key after [`Config::with_grace`] and a moment.
    ///
    /// The check cannot see whether the server saves at all: see *Limits* of the README.
    ///
    /// # Errors
    ///
    /// `Misconfigured` with the necessary change; `Unavailable` as usual.
    ///
    /// # Cancellation
    ///
    /// The key is claimed for at most ten seconds.
    ///
    /// [`Config::with_grace`]: crate::Config::with_grace
    pub async fn verify(&self) -> Result<()> {
        self.verify_all().await.map_err(at("verify"))
    }

    async fn verify_all(&self) -> Result<()> {
        check_servers(&self.link, self.operations.config.eviction()).await?;
        self.check_announcing().await?;
        let undone = |error: Error| error.with_effect(Effect::None);
        self.walk_through().await.map_err(undone)
    }

    async fn walk_through(&self) -> Result<()> {
        let id = u128::from_be_bytes(*AttemptId::random().as_bytes());
        let key = Key::new("idem-verify", "verify", format!("{id:032x}"))?;
        let request = ClaimRequest::new(key.clone(), Fingerprint::raw("verify"))
            .with_lease(SHORT)
            .with_retention(SHORT);
        let claimed = self.claim(&request).await?;
        let claim = claimed.acquired().ok_or_else(strange)?;
        let again = self.claim(&request).await?;
        let claim = again.acquired().filter(|own| own.token() == claim.token());
        let claim = self.renew(&claim.ok_or_else(strange)?, SHORT).await?;
        let point = Checkpoint::new("verify", "half way")?;
        self.checkpoint(&claim, &point).await?;
        if self.last_checkpoint(&claim).await? != Some(point) || self.get(&key).await?.is_none() {
            return Err(strange());
        }
        self.release(&claim).await?;
        self.advance(&key, 1, Duration::from_millis(1)).await?;
        Ok(())
    }

    /// A script that may not publish does its work nevertheless, and wakes no listener.
    async fn check_announcing(&self) -> Result<()> {
        if !self.operations.config.notifies() {
            return Ok(());
        }
        let mut publish = redis::cmd("PUBLISH");
        publish
            .arg([self.operations.config.namespace(), ":w:"].concat())
            .arg("");
        match self.link.at(None, &publish).await {
            Err(error) if error.kind() == ErrorKind::Misconfigured => Err(misconfigured(
                "the user may not publish, so nobody who waits is woken; grant `&<namespace>:* +@pubsub`, or set \
                 `Notifications::Off`"
                    .to_owned(),
            )
            .with_source(error)),
            done => done.map(drop),
        }
    }
}

async fn check_servers(link: &Link, eviction: crate::config::Eviction) -> Result<()> {
    let probed = link.at_masters(&scripts::probe()).await;
    probed.map_err(scripts::refused)?;
    for (node, answer) in link.at_masters(&redis::cmd("INFO")).await? {
        let text: String = redis::from_redis_value(answer)
            .map_err(|error| crate::error::classify(error.into(), crate::error::Access::Read))?;
        let info = Info::new(&text);
        info.check(eviction)?;
        info.check_saving(node.as_deref())?;
    }
    Ok(())
}

fn misconfigured(message: String) -> Error {
    Error::new(ErrorKind::Misconfigured, Effect::None, message)
}

fn strange() -> Error {
    Error::corrupt(
        "the server has not kept what was written a moment ago; does a proxy spread commands over several servers?",
    )
}
