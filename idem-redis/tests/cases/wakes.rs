//! Waiting runs are notified.

use std::time::{Duration, Instant};

use futures_util::{FutureExt, StreamExt};
use idem_conformance::{Case, CaseError, CaseResult, Context};
use idem_core::backend::{ChangeNotifier, Subscription};
use idem_core::{BusyPolicy, Failure, Idempotency, IdempotencyStore, Key, Policy, Response};
use idem_redis::redis::{self, Client, Cmd, FromRedisValue, Msg};
use idem_redis::{Config, Notifications, RedisStore};
use tokio::task::JoinSet;
use tokio::task::coop::unconstrained;

use super::{HOUR, case};
use crate::support::{self, query_url};

pub(super) const A_LISTENER_IS_TOLD_OF_EVERY_END: Case =
    case(2, "a_listener_is_told_of_every_end", |cx| {
        Box::pin(a_listener_is_told_of_every_end(cx))
    });
pub(super) const RUNS_THAT_WAIT_REPLAY_WHAT_ANOTHER_STORE_COMPLETES: Case = case(
    2,
    "runs_that_wait_replay_what_another_store_completes",
    |cx| Box::pin(runs_that_wait_replay_what_another_store_completes(cx)),
);
pub(super) const A_KILLED_CONNECTION_IS_TOLD_AND_HEARS_AGAIN: Case =
    case(14, "a_killed_connection_is_told_and_hears_again", |cx| {
        Box::pin(a_killed_connection_is_told_and_hears_again(cx))
    });
pub(super) const NOTHING_IS_PUBLISHED_WHERE_NOTHING_IS_NOTIFIED: Case =
    case(2, "nothing_is_published_where_nothing_is_notified", |cx| {
        Box::pin(nothing_is_published_where_nothing_is_notified(cx))
    });
pub(super) const WHO_LISTENS_NO_MORE_IS_NOT_SUBSCRIBED: Case =
    case(16, "who_listens_no_more_is_not_subscribed", |cx| {
        Box::pin(who_listens_no_more_is_not_subscribed(cx))
    });
pub(super) const HUNDREDS_OF_LISTENERS_SHARE_ONE_CONNECTION: Case =
    case(16, "hundreds_of_listeners_share_one_connection", |cx| {
        Box::pin(hundreds_of_listeners_share_one_connection(cx))
    });

const DEADLINE: Duration = Duration::from_secs(30);

/// A user of its own on all nodes, whose name identifies its connections to the server.
pub(super) struct Account {
    name: String,
    urls: Vec<String>,
}

impl Account {
    pub(super) async fn open(cx: &Context) -> CaseResult<Self> {
        let name = cx.namespace().to_owned();
        let account = Self {
            name,
            urls: urls(cx)?,
        };
        account
            .may(&["reset", "on", ">secret", "~*", "&*", "+@all"])
            .await?;
        Ok(account)
    }

    /// Changes its rights.
    pub(super) async fn may(&self, rules: &[&str]) -> CaseResult {
        let mut set = redis::cmd("ACL");
        set.arg("SETUSER").arg(&self.name).arg(rules);
        everywhere::<()>(&self.urls, &set).await?;
        Ok(())
    }

    pub(super) async fn store(&self, config: Config) -> CaseResult<RedisStore> {
        let config = config.with_namespace(&self.name)?;
        let own = |url: &String| {
            let place = url.trim_start_matches("redis://");
            let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
            format!("redis://{}:secret@{place}", self.name)
        };
        let urls: Vec<String> = self.urls.iter().map(own).collect();
        let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
        Ok(match urls[..] {
            [url] => RedisStore::connect(url, config).await?,
            _ => RedisStore::connect_cluster(&urls, config).await?,
        })
    }

    /// Returns on how many connections it listens.
    async fn connections(&self) -> CaseResult<usize> {
        let mut list = redis::cmd("CLIENT");
        list.arg("LIST").arg("TYPE").arg("pubsub");
        let lists: Vec<String> = everywhere(&self.urls, &list).await?;
        let own = format!("user={}", self.name);
        let of = |list: &String| {
            let lines = list.lines();
            lines
                .filter(|line| line.split(' ').any(|word| word == own))
                .count()
        };
        Ok(lists.iter().map(of).sum())
    }

    /// Kills them.
    pub(super) async fn kill(&self) -> CaseResult<u32> {
        let mut kill = redis::cmd("CLIENT");
        kill.arg("KILL")
            .arg("TYPE")
            .arg("pubsub")
            .arg("USER")
            .arg(&self.name);
        let killed: Vec<u32> = everywhere(&self.urls, &kill).await?;
        Ok(killed.iter().sum())
    }

    /// Returns how many connections of any account are subscribed to a channel.
    pub(super) async fn subscribed(&self, channel: &str) -> CaseResult<u32> {
        let mut numbers = redis::cmd("PUBSUB");
        numbers.arg("NUMSUB").arg(channel);
        let numbers: Vec<(String, u32)> = everywhere(&self.urls, &numbers).await?;
        Ok(numbers.iter().map(|(_, number)| number).sum())
    }

    pub(super) async fn until_subscribed(&self, channel: &str, expected: u32) -> CaseResult {
        let started = Instant::now();
        while self.subscribed(channel).await? != expected {
            in_time(started, "subscriptions change")?;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// Its connections are closed with it.
    pub(super) async fn close(self) -> CaseResult {
        let mut delete = redis::cmd("ACL");
        delete.arg("DELUSER").arg(&self.name);
        everywhere::<u32>(&self.urls, &delete).await?;
        Ok(())
    }
}

/// The nodes of the backend that the case runs on.
fn urls(cx: &Context) -> CaseResult<Vec<String>> {
    let urls = idem_servers::url_for(cx.harness().name());
    let urls = urls.ok_or_else(|| CaseError::new("the server is gone"))?;
    Ok(urls.split(',').map(ToOwned::to_owned).collect())
}

/// Returns the answer of each node.
async fn everywhere<T: FromRedisValue>(urls: &[String], cmd: &Cmd) -> CaseResult<Vec<T>> {
    let mut answers = Vec::with_capacity(urls.len());
    for url in urls {
        answers.push(query_url(url, cmd).await?);
    }
    Ok(answers)
}

fn in_time(since: Instant, what: &str) -> CaseResult {
    if since.elapsed() < DEADLINE {
        return Ok(());
    }
    Err(CaseError::new(format!("waited in vain: {what}")))
}

fn channel(cx: &Context, key: &Key) -> String {
    format!("{}:w:{}", cx.namespace(), key.path())
}

async fn returned(listener: &mut Subscription) -> CaseResult {
    let returned = tokio::time::timeout(DEADLINE, listener.changed()).await;
    returned.map_err(|_| CaseError::new("the listener was not notified"))
}

/// Ends a claim in each possible way.
async fn end(store: &dyn IdempotencyStore, cx: &Context, how: &str) -> CaseResult {
    let claim = store.claim(&cx.request(&cx.key(how))).await?;
    let claim = claim.acquired().expect("a fresh key");
    let (response, failure) = (Response::new(200, "done"), Failure::new("no", "no"));
    let ended = match how {
        "complete" => store.complete(&claim, &response, HOUR),
        "fail" => store.fail(&claim, &failure, HOUR),
        _ => store.release(&claim),
    };
    Ok(ended.await?)
}

const ENDS: [&str; 3] = ["complete", "fail", "release"];

async fn a_listener_is_told_of_every_end(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    for how in ENDS {
        let key = cx.key(how);
        let (mut one, mut two) = (store.listen(&key).await?, store.listen(&key).await?);
        end(cx.store(), cx, how).await?;
        returned(&mut one).await?;
        returned(&mut two).await?;
    }
    Ok(())
}

async fn runs_that_wait_replay_what_another_store_completes(cx: &Context) -> CaseResult {
    let account = Account::open(cx).await?;
    let store = account.store(Config::new()).await?;
    let policy = Policy::default().with_on_busy(BusyPolicy::wait(DEADLINE));
    let idem = Idempotency::new(store.clone())
        .with_notifier(store)
        .with_policy(policy);
    let key = cx.key("one");
    let request = cx.request(&key);
    let claim = cx.claim(&request).await?;
    let mut runs = JoinSet::new();
    for _ in 0..20 {
        let (idem, key, fingerprint) = (idem.clone(), key.clone(), *request.fingerprint());
        runs.spawn(async move {
            let run = idem.run_with(&key, fingerprint, async |_| Err::<u32, _>("it runs twice"));
            run.await
        });
    }
    account.until_subscribed(&channel(cx, &key), 1).await?;
    let response = Response::json(&42)?;
    cx.store().complete(&claim, &response, HOUR).await?;
    for outcome in runs.join_all().await {
        assert_eq!(outcome.expect("a replay").into_replayed(), Some(42));
    }
    account.until_subscribed(&channel(cx, &key), 0).await?;
    account.close().await
}

async fn a_killed_connection_is_told_and_hears_again(cx: &Context) -> CaseResult {
    let account = Account::open(cx).await?;
    let store = account.store(Config::new()).await?;
    let mut listeners = Vec::new();
    for how in ENDS {
        listeners.push(store.listen(&cx.key(how)).await?);
    }
    assert_eq!(account.kill().await?, 1);
    for listener in &mut listeners {
        returned(listener).await?;
    }
    for (how, listener) in ENDS.iter().zip(&mut listeners) {
        // Hints may come twice; from here on they report the end of the claim.
        while tokio::time::timeout(Duration::from_millis(50), listener.changed())
            .await
            .is_ok()
        {}
        end(cx.store(), cx, how).await?;
        returned(listener).await?;
    }
    account.close().await
}

/// Collects the messages published during every ending. A node passes on its messages in order, so
/// after its mark none of them is under way.
async fn published(cx: &Context, notifications: Notifications) -> CaseResult<usize> {
    let (harness, urls) = (support::harness(cx)?, urls(cx)?);
    let config = Config::new().with_namespace(cx.namespace())?;
    let store = harness
        .store_with(config.with_notifications(notifications))
        .await?;
    let client = Client::open(urls[0].as_str())?;
    let mut pubsub = client.get_async_pubsub().await?;
    pubsub.psubscribe(format!("{}:*", cx.namespace())).await?;
    for how in ENDS {
        end(&store, cx, how).await?;
    }
    let mark = format!("{}:mark", cx.namespace());
    let mut publish = redis::cmd("PUBLISH");
    everywhere::<u32>(&urls, publish.arg(&mark).arg("")).await?;
    let (mut marks, mut others) = (0, 0);
    let mut messages = pubsub.on_message();
    while marks < urls.len() {
        let message: Option<Msg> = tokio::time::timeout(DEADLINE, messages.next()).await?;
        let message = message.ok_or_else(|| CaseError::new("the connection was lost"))?;
        if message.get_channel_name() == mark {
            marks += 1;
        } else {
            others += 1;
        }
    }
    Ok(others)
}

async fn nothing_is_published_where_nothing_is_notified(cx: &Context) -> CaseResult {
    assert_eq!(published(cx, Notifications::Off).await?, 0);
    cx.harness().destroy(cx.namespace()).await?;
    assert_eq!(published(cx, Notifications::Changes).await?, ENDS.len());
    Ok(())
}

async fn who_listens_no_more_is_not_subscribed(cx: &Context) -> CaseResult {
    let account = Account::open(cx).await?;
    let store = account.store(Config::new()).await?;
    let (key, other) = (cx.key("complete"), cx.key("other"));
    let stays = store.listen(&other).await?;
    for _ in 0..3 {
        let (one, two) = (store.listen(&key).await?, store.listen(&key).await?);
        assert_eq!(account.subscribed(&channel(cx, &key)).await?, 1);
        drop(one);
        let three = store.listen(&key).await?;
        drop(two);
        assert_eq!(account.subscribed(&channel(cx, &key)).await?, 1);
        drop(three);
        account.until_subscribed(&channel(cx, &key), 0).await?;
    }
    let mut again = store.listen(&key).await?;
    end(cx.store(), cx, "complete").await?;
    returned(&mut again).await?;
    assert_eq!(account.subscribed(&channel(cx, &other)).await?, 1);
    drop((again, stays, store));
    let started = Instant::now();
    while account.connections().await? > 0 {
        in_time(started, "the connection goes with the store")?;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    account.close().await
}

async fn hundreds_of_listeners_share_one_connection(cx: &Context) -> CaseResult {
    let account = Account::open(cx).await?;
    let store = account.store(Config::new()).await?;
    let mut listening = JoinSet::new();
    for number in 0..200 {
        let (store, key) = (store.clone(), cx.key(format!("{number}")));
        listening.spawn(async move { store.listen(&key).await });
    }
    let mut others = Vec::new();
    for listener in listening.join_all().await {
        others.push(listener?);
    }
    let mut listener = store.listen(&cx.key("release")).await?;
    assert_eq!(account.connections().await?, 1);
    // Listeners that came while the connection was made may have been notified twice of their
    // subscription.
    for other in &mut others {
        let _ = unconstrained(other.changed()).now_or_never();
    }
    end(cx.store(), cx, "release").await?;
    returned(&mut listener).await?;
    for other in &mut others {
        let returned = unconstrained(other.changed()).now_or_never();
        assert!(returned.is_none(), "of another key");
    }
    account.close().await
}
