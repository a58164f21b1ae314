//! A message is posted once under its nonce.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use idem_conformance::proxy::Proxy;
use idem_conformance::{Case, CaseError, CaseResult, Context};
use idem_core::{ErrorKind, Key, Nonce};
use idem_redis::{Config, Enforce, NonceError, NonceWindow, Posted, RedisStore, redis};
use tokio::sync::{Barrier, Notify};
use tokio::task::{JoinHandle, JoinSet};

use super::wakes::Account;
use super::{case, on_the_wire};
use crate::support;

pub(super) const POSTS_THAT_RACE_ON_TWO_STORES_ARE_ONE: Case =
    case(1, "posts_that_race_on_two_stores_are_one", |cx| {
        Box::pin(posts_that_race_on_two_stores_are_one(cx))
    });
pub(super) const A_POST_THAT_FAILED_FREES_ITS_NONCE: Case =
    case(7, "a_post_that_failed_frees_its_nonce", |cx| {
        Box::pin(a_post_that_failed_frees_its_nonce(cx))
    });
pub(super) const A_POST_THAT_PANICKED_KEEPS_ITS_NONCE: Case =
    case(12, "a_post_that_panicked_keeps_its_nonce", |cx| {
        Box::pin(a_post_that_panicked_keeps_its_nonce(cx))
    });
pub(super) const A_POST_WHOSE_CALLER_IS_GONE_IS_FINISHED: Case =
    case(13, "a_post_whose_caller_is_gone_is_finished", |cx| {
        Box::pin(a_post_whose_caller_is_gone_is_finished(cx))
    });
pub(super) const A_LOST_ANSWER_NEITHER_BLOCKS_NOR_REPEATS_A_POST: Case = on_the_wire(
    14,
    "a_lost_answer_neither_blocks_nor_repeats_a_post",
    |cx| Box::pin(a_lost_answer_neither_blocks_nor_repeats_a_post(cx)),
);
pub(super) const A_NONCE_IS_FREE_AFTER_ITS_WINDOW: Case =
    case(8, "a_nonce_is_free_after_its_window", |cx| {
        Box::pin(a_nonce_is_free_after_its_window(cx))
    });
pub(super) const EVERY_NONCE_ENDS_WITH_ITS_FIRST_WINDOW: Case =
    case(8, "every_nonce_ends_with_its_first_window", |cx| {
        Box::pin(every_nonce_ends_with_its_first_window(cx))
    });
pub(super) const A_NONCE_THAT_IS_NOT_ENFORCED_IS_NOT_KEPT: Case =
    case(15, "a_nonce_that_is_not_enforced_is_not_kept", |cx| {
        Box::pin(a_nonce_that_is_not_enforced_is_not_kept(cx))
    });
pub(super) const NONCES_OF_TWO_AUTHORS_NEVER_MEET: Case =
    case(10, "nonces_of_two_authors_never_meet", |cx| {
        Box::pin(nonces_of_two_authors_never_meet(cx))
    });
pub(super) const A_DUPLICATE_GETS_THE_ID_THAT_IT_WAITS_FOR: Case =
    case(2, "a_duplicate_gets_the_id_that_it_waits_for", |cx| {
        Box::pin(a_duplicate_gets_the_id_that_it_waits_for(cx))
    });

const DEADLINE: Duration = Duration::from_secs(30);

type Answer = Result<Posted, NonceError<io::Error>>;

fn nonce(text: &str) -> Nonce {
    Nonce::new(text).expect("nonces of cases are valid")
}

/// Counts messages, and gives each an id.
#[derive(Debug, Clone, Default)]
struct Board(Arc<AtomicU32>);

impl Board {
    fn count(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }

    fn keep(&self) -> Result<String, io::Error> {
        Ok((self.0.fetch_add(1, Ordering::SeqCst) + 1).to_string())
    }

    async fn post(&self, window: &NonceWindow, text: &str) -> Answer {
        let (board, nonce) = (self.clone(), nonce(text));
        let keep = move || async move { board.keep() };
        window.post("ada", Some(&nonce), Enforce::Yes, keep).await
    }
}

/// A post that has begun and goes on at a signal.
struct Held {
    go: Arc<Notify>,
    posting: JoinHandle<Answer>,
}

impl Held {
    async fn begin(window: &NonceWindow, board: &Board, text: &str) -> Self {
        let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (window, board, nonce) = (window.clone(), board.clone(), nonce(text));
        let (begins, goes) = (Arc::clone(&begun), Arc::clone(&go));
        let posting = tokio::spawn(async move {
            let keep = move || async move {
                begins.notify_one();
                goes.notified().await;
                board.keep()
            };
            window.post("ada", Some(&nonce), Enforce::Yes, keep).await
        });
        begun.notified().await;
        Self { go, posting }
    }
}

async fn window(cx: &Context) -> CaseResult<NonceWindow> {
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    Ok(NonceWindow::new(store).with_wait(DEADLINE))
}

async fn posts_that_race_on_two_stores_are_one(cx: &Context) -> CaseResult {
    const EACH: usize = 25;
    let (board, barrier) = (Board::default(), Arc::new(Barrier::new(2 * EACH)));
    let mut posts = JoinSet::new();
    for window in [window(cx).await?, window(cx).await?] {
        for _ in 0..EACH {
            let (window, board, barrier) = (window.clone(), board.clone(), Arc::clone(&barrier));
            posts.spawn(async move {
                barrier.wait().await;
                board.post(&window, "one").await
            });
        }
    }
    let mut new = 0;
    for posted in posts.join_all().await {
        let posted = posted?;
        assert_eq!(posted.id(), "1");
        new += u32::from(matches!(posted, Posted::Now(_)));
    }
    assert_eq!((new, board.count()), (1, 1));
    Ok(())
}

async fn a_post_that_failed_frees_its_nonce(cx: &Context) -> CaseResult {
    let (harness, window, board) = (support::harness(cx)?, window(cx).await?, Board::default());
    let fails = || async { Err::<String, _>(io::Error::other("no")) };
    let failed = window
        .post("ada", Some(&nonce("one")), Enforce::Yes, fails)
        .await;
    assert!(matches!(failed, Err(NonceError::Post(_))), "{failed:?}");
    assert!(harness.keys(cx.namespace()).await?.is_empty());
    let at_once = window.clone().with_wait(Duration::ZERO);
    assert_eq!(
        board.post(&at_once, "one").await?,
        Posted::Now("1".to_owned())
    );
    assert_eq!(
        board.post(&at_once, "one").await?,
        Posted::Before("1".to_owned())
    );
    Ok(())
}

async fn a_post_that_panicked_keeps_its_nonce(cx: &Context) -> CaseResult {
    let (window, board) = (window(cx).await?.with_wait(cx.short()), Board::default());
    let panics = || async { panic!("on purpose") };
    let one = nonce("one");
    let first = window.post::<Infallible, _, _>("ada", Some(&one), Enforce::Yes, panics);
    let first = first.await;
    assert!(matches!(first, Err(NonceError::Interrupted)), "{first:?}");
    for _ in 0..2 {
        let again = board.post(&window, "one").await;
        assert!(matches!(again, Err(NonceError::Pending)), "{again:?}");
    }
    assert_eq!(board.post(&window, "two").await?.id(), "1");
    Ok(())
}

async fn a_post_whose_caller_is_gone_is_finished(cx: &Context) -> CaseResult {
    let (window, board) = (window(cx).await?, Board::default());
    let held = Held::begin(&window, &board, "one").await;
    held.posting.abort();
    assert!(held.posting.await.is_err_and(|error| error.is_cancelled()));
    held.go.notify_one();
    let again = board.post(&window, "one").await?;
    assert_eq!(again, Posted::Before("1".to_owned()));
    assert_eq!(board.count(), 1);
    Ok(())
}

/// Cuts after ever more messages: when the nonce is taken, and when the id is written, which is
/// sent twice to a server that does not know the script.
async fn a_lost_answer_neither_blocks_nor_repeats_a_post(cx: &Context) -> CaseResult {
    let server = support::harness(cx)?.server_address().expect("an address");
    let proxy = Proxy::start(server).await?;
    let config = Config::new().with_namespace(cx.namespace())?;
    let store = RedisStore::connect(&format!("redis://{}", proxy.address()), config).await?;
    let (cut, clear) = (NonceWindow::new(store), window(cx).await?);
    for passes in 0..8 {
        let (board, text) = (Board::default(), format!("{passes}"));
        // The connection exists before.
        board.post(&cut, &format!("before {passes}")).await?;
        let cuts = proxy.cuts();
        proxy.cut_after(passes);
        let first = board.post(&cut, &text).await;
        proxy.disarm();
        assert!(passes > 1 || proxy.cuts() > cuts, "nothing was cut");
        let again = board.post(&clear, &text).await;
        let again = again.map_err(|error| CaseError::new(format!("{passes}: {error}")))?;
        assert_eq!((again.id(), board.count()), ("2", 2), "{passes}");
        match first {
            Ok(first) => assert_eq!(first.id(), "2", "{passes}"),
            Err(NonceError::Store(_)) => assert_eq!(again, Posted::Now("2".to_owned())),
            Err(error) => return Err(CaseError::new(format!("{passes}: {error}"))),
        }
    }
    Ok(())
}

async fn a_nonce_is_free_after_its_window(cx: &Context) -> CaseResult {
    let (window, board) = (window(cx).await?.with_window(cx.short()), Board::default());
    let held = Held::begin(&window, &board, "held").await;
    let started = Instant::now();
    while board.count() < 3 {
        board.post(&window, "one").await?;
        assert!(started.elapsed() < DEADLINE, "the window does not end");
    }
    // It takes no nonce from its current owner.
    board
        .post(&window.clone().with_window(DEADLINE), "held")
        .await?;
    held.go.notify_one();
    let late = held.posting.await??;
    let now = board.post(&window, "held").await?;
    assert!(matches!(late, Posted::Now(_)));
    assert!(matches!(now, Posted::Before(_)) && now != late, "{now:?}");
    Ok(())
}

async fn every_nonce_ends_with_its_first_window(cx: &Context) -> CaseResult {
    let (harness, board) = (support::harness(cx)?, Board::default());
    let window = window(cx).await?;
    let held = Held::begin(&window, &board, "one").await;
    let keys = harness.keys(cx.namespace()).await?;
    assert_eq!(keys.len(), 1);
    let left = async || harness.query::<i64>(redis::cmd("PTTL").arg(&keys[0])).await;
    let pending = left().await?;
    assert!((1..=300_000).contains(&pending), "{pending}");
    held.go.notify_one();
    held.posting.await??;
    let posted = left().await?;
    assert!((1..=pending).contains(&posted), "{pending}, then {posted}");
    board
        .post(&window.clone().with_window(2 * DEADLINE), "one")
        .await?;
    assert!(
        (1..=posted).contains(&left().await?),
        "a duplicate changes nothing"
    );
    assert_eq!(harness.keys(cx.namespace()).await?, keys);
    Ok(())
}

async fn a_nonce_that_is_not_enforced_is_not_kept(cx: &Context) -> CaseResult {
    let (harness, window, board) = (support::harness(cx)?, window(cx).await?, Board::default());
    let one = nonce("one");
    for (nonce, enforce) in [
        (Some(&one), Enforce::No),
        (Some(&one), Enforce::default()),
        (None, Enforce::Yes),
        (None, Enforce::Yes),
    ] {
        let board = board.clone();
        let posted = window.post("ada", nonce, enforce, move || async move { board.keep() });
        assert!(matches!(posted.await?, Posted::Now(_)));
    }
    assert_eq!(board.count(), 4);
    assert!(harness.keys(cx.namespace()).await?.is_empty());
    Ok(())
}

async fn nonces_of_two_authors_never_meet(cx: &Context) -> CaseResult {
    let (window, board) = (window(cx).await?, Board::default());
    let named = [
        ("a:nonce:b", "c"),
        ("a", "b:nonce:c"),
        ("a", "c"),
        ("a", "C"),
        ("{a}", "c"),
    ];
    for expected in [Posted::Now as fn(String) -> Posted, Posted::Before] {
        for (index, (author, text)) in named.into_iter().enumerate() {
            let (board, nonce) = (board.clone(), nonce(text));
            let keep = move || async move { board.keep() };
            let posted = window
                .post(author, Some(&nonce), Enforce::Yes, keep)
                .await?;
            assert_eq!(
                posted,
                expected((index + 1).to_string()),
                "{author}, {text}"
            );
        }
    }
    for wrong in ["", "a\nb"] {
        let keep = || async { Ok::<_, Infallible>("id".to_owned()) };
        match window
            .post(wrong, Some(&nonce("one")), Enforce::Yes, keep)
            .await
        {
            Err(NonceError::Store(error)) => assert_eq!(error.kind(), ErrorKind::InvalidInput),
            other => return Err(CaseError::new(format!("{other:?}"))),
        }
    }
    Ok(())
}

/// With a notification, with its connection killed meanwhile, and without any notification.
async fn a_duplicate_gets_the_id_that_it_waits_for(cx: &Context) -> CaseResult {
    let account = Account::open(cx).await?;
    let config = Config::new().with_timeout(Duration::from_secs(1));
    let unnotified = NonceWindow::new(account.store(config).await?).with_wait(2 * DEADLINE);
    let (clear, board) = (window(cx).await?, Board::default());
    for (index, how) in ["notified", "killed", "unnotified"].into_iter().enumerate() {
        if how == "unnotified" {
            account.may(&["-subscribe"]).await?;
            account.kill().await?;
        }
        let held = Held::begin(&clear, &board, how).await;
        let (window, other) = (unnotified.clone(), board.clone());
        let waiting = tokio::spawn(async move { other.post(&window, how).await });
        if how != "unnotified" {
            let key = Key::new("ada", "nonce", how)?;
            let channel = format!("{}:w:{}", cx.namespace(), key.path());
            account.until_subscribed(&channel, 1).await?;
        }
        if how == "killed" {
            assert_eq!(account.kill().await?, 1);
        }
        held.go.notify_one();
        let id = (index + 1).to_string();
        assert_eq!(held.posting.await??, Posted::Now(id.clone()), "{how}");
        let duplicate = tokio::time::timeout(DEADLINE, waiting).await???;
        assert_eq!(duplicate, Posted::Before(id), "{how}");
    }
    account.close().await
}
