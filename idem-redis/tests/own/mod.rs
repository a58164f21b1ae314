//! Helpers of the tests with servers of their own.

use std::time::{Duration, Instant};

use idem_core::{BoxError, ClaimRequest, Fingerprint, Key};
use idem_redis::redis::{self, Client, Cmd, FromRedisValue};
use libtest_mimic::{Failed, Trial};
use tokio::runtime::Runtime;

pub(crate) const HOUR: Duration = Duration::from_secs(3600);

const MAX_WAIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(10);

pub(crate) type Outcome<T = ()> = Result<T, BoxError>;

/// A test on a runtime of its own, which the servers' ends wait for.
pub(crate) fn trial(name: String, test: impl Fn(&Runtime) -> Outcome + Send + 'static) -> Trial {
    Trial::test(name, move || {
        let runtime = Runtime::new().map_err(|error| Failed::from(error.to_string()))?;
        test(&runtime).map_err(|error| Failed::from(format!("{error}: {:?}", error.source())))
    })
}

/// Returns a claim that only a failover ends.
pub(crate) fn request(id: impl AsRef<str>) -> ClaimRequest {
    let key = Key::new("tenant", "payments.create", id).expect("a valid id");
    ClaimRequest::new(key, Fingerprint::raw("request")).with_lease(HOUR)
}

/// A command of words.
pub(crate) fn command(words: &str) -> Cmd {
    let mut words = words.split(' ');
    let mut cmd = redis::cmd(words.next().unwrap_or_default());
    for word in words {
        cmd.arg(word);
    }
    cmd
}

/// Returns the answer of the server at this URL.
pub(crate) async fn query<T: FromRedisValue>(url: &str, words: &str) -> Outcome<T> {
    let client = Client::open(url)?;
    let mut connection = client.get_multiplexed_async_connection().await?;
    Ok(command(words).query_async(&mut connection).await?)
}

/// Repeats the check until it holds.
pub(crate) async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) -> Outcome {
    let started = Instant::now();
    while !is_so().await {
        if started.elapsed() > MAX_WAIT {
            return Err(format!("waited {MAX_WAIT:?} in vain: {what}").into());
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}
