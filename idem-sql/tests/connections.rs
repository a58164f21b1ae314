//! Which connections are acquired, reused and closed, seen by a temporary table: it belongs to its
//! connection, and goes with it.

use std::future::Future;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use idem_sql::sqlx::{ConnectionGuard, Connections, Opener};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, Executor, Row, Sqlite};
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(10);

type TestResult = Result<(), Box<dyn std::error::Error>>;

/// Connections to a file that is there as long as the test.
struct Fixture {
    connections: Connections<Sqlite>,
    _folder: TempDir,
}

impl Fixture {
    fn new(max: usize) -> Result<Self, Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let url = format!("sqlite:{}", folder.path().join("secret.db").display());
        let options = SqliteConnectOptions::from_str(&url)?.create_if_missing(true);
        Ok(Self {
            connections: Connections::new(Opener::new(options), max, LIMIT),
            _folder: folder,
        })
    }

    async fn acquire(&self) -> Result<ConnectionGuard<Sqlite>, sqlx::Error> {
        self.connections.acquire().await
    }

    fn is_waiting(&self) -> bool {
        let mut acquired = std::pin::pin!(self.acquire());
        let polled = acquired
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        matches!(polled, Poll::Pending)
    }
}

async fn mark(guard: &mut ConnectionGuard<Sqlite>, name: &'static str) -> Result<(), sqlx::Error> {
    let sql = AssertSqlSafe(format!("CREATE TEMPORARY TABLE {name} (value)"));
    let connection = guard.connection().ok_or(sqlx::Error::PoolClosed)?;
    connection.execute(sqlx::raw_sql(sql)).await.map(drop)
}

async fn marks(guard: &mut ConnectionGuard<Sqlite>) -> Result<Vec<String>, sqlx::Error> {
    let sql = "SELECT name FROM sqlite_temp_master";
    let connection = guard.connection().ok_or(sqlx::Error::PoolClosed)?;
    let rows = connection.fetch_all(sqlx::raw_sql(sql)).await?;
    rows.iter().map(|row| row.try_get(0)).collect()
}

fn run(test: impl Future<Output = TestResult>) -> TestResult {
    tokio::runtime::Runtime::new()?.block_on(test)
}

#[test]
fn a_returned_connection_is_given_out_again() -> TestResult {
    run(async {
        let fixture = Fixture::new(1)?;
        let mut guard = fixture.acquire().await?;
        mark(&mut guard, "first").await?;
        assert!(fixture.is_waiting(), "there is one");
        guard.done();
        assert_eq!(marks(&mut fixture.acquire().await?).await?, ["first"]);
        Ok(())
    })
}

#[test]
fn a_connection_that_was_dropped_is_closed_and_its_slot_free() -> TestResult {
    run(async {
        let fixture = Fixture::new(1)?;
        let mut guard = fixture.acquire().await?;
        mark(&mut guard, "dropped").await?;
        drop(guard);
        assert!(marks(&mut fixture.acquire().await?).await?.is_empty());
        Ok(())
    })
}

/// Drops the future at each of its polls, until it completes.
#[test]
fn a_connection_whose_use_was_cancelled_is_closed() -> TestResult {
    run(async {
        let fixture = Fixture::new(1)?;
        for polls in 0.. {
            let mut guard = fixture.acquire().await?;
            mark(&mut guard, "used").await?;
            let using = async move {
                let found = marks(&mut guard).await;
                guard.done();
                found
            };
            let mut using = Box::pin(using);
            let mut answer = None;
            for _ in 0..polls {
                tokio::task::yield_now().await;
                let polled = using.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                if let Poll::Ready(found) = polled {
                    answer = Some(found?);
                    break;
                }
            }
            drop(using);
            let left = marks(&mut fixture.acquire().await?).await?;
            match answer {
                Some(found) => {
                    assert_eq!(
                        (found, left),
                        (vec!["used".to_owned()], vec!["used".to_owned()])
                    );
                    return Ok(());
                }
                None => assert!(left.is_empty(), "guard again after {polls} polls"),
            }
        }
        Ok(())
    })
}

#[test]
fn the_connection_returned_last_is_given_out_first() -> TestResult {
    run(async {
        let fixture = Fixture::new(3)?;
        let mut guard = Vec::new();
        for name in ["a", "b", "c"] {
            guard.push(fixture.acquire().await?);
            mark(guard.last_mut().ok_or("one")?, name).await?;
        }
        for one in guard {
            one.done();
        }
        let mut again = Vec::new();
        for name in ["c", "b", "a"] {
            again.push(fixture.acquire().await?);
            assert_eq!(marks(again.last_mut().ok_or("one")?).await?, [name]);
        }
        Ok(())
    })
}

#[test]
fn no_connection_is_given_out_after_the_close() -> TestResult {
    run(async {
        let fixture = Fixture::new(2)?;
        let clone = fixture.connections.clone();
        let guard = fixture.acquire().await?;
        clone.close();
        guard.done();
        for _ in 0..2 {
            let error = fixture.acquire().await.err();
            assert!(matches!(error, Some(sqlx::Error::PoolClosed)), "{error:?}");
        }
        Ok(())
    })
}

#[test]
fn a_connection_that_cannot_be_made_is_an_error_and_takes_no_slot() -> TestResult {
    run(async {
        let options = SqliteConnectOptions::from_str("sqlite:/nowhere/at/all.db")?;
        let connections = Connections::<Sqlite>::new(Opener::new(options), 1, LIMIT);
        for _ in 0..3 {
            assert!(connections.acquire().await.is_err());
        }
        Ok(())
    })
}

/// As a proxy does that queues whom its server has no room for.
#[test]
fn who_waits_for_a_new_connection_gets_one_that_comes_back() -> TestResult {
    run(async {
        let opened = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&opened);
        let opener = Opener::new(SqliteConnectOptions::new()).with_set_up(move |_| {
            let number = count.fetch_add(1, Ordering::SeqCst);
            Box::pin(async move {
                match number {
                    0 => Ok(()),
                    _ => std::future::pending().await,
                }
            })
        });
        let connections = Connections::<Sqlite>::new(opener, 3, LIMIT);
        let mut guard = connections.acquire().await?;
        mark(&mut guard, "first").await?;
        let others = (0..5).map(|_| {
            let connections = connections.clone();
            tokio::spawn(async move {
                let mut guard = connections.acquire().await?;
                let found = marks(&mut guard).await;
                guard.done();
                found
            })
        });
        let others: Vec<_> = others.collect();
        while opened.load(Ordering::SeqCst) < 3 {
            tokio::task::yield_now().await;
        }
        guard.done();
        for other in others {
            assert_eq!(other.await??, ["first"]);
        }
        Ok(())
    })
}

#[test]
fn a_connection_that_is_not_open_in_time_is_an_error_and_takes_no_slot() -> TestResult {
    run(async {
        let opener = Opener::new(SqliteConnectOptions::new())
            .with_set_up(|_| Box::pin(std::future::pending()));
        let connections = Connections::<Sqlite>::new(opener, 1, Duration::from_millis(20));
        for _ in 0..3 {
            let error = connections.acquire().await.err();
            assert!(matches!(error, Some(sqlx::Error::Io(_))), "{error:?}");
        }
        Ok(())
    })
}

#[test]
fn a_connection_that_was_cut_takes_the_idle_ones_with_it() -> TestResult {
    run(async {
        let fixture = Fixture::new(3)?;
        let mut guards = Vec::new();
        for _ in 0..3 {
            guards.push(fixture.acquire().await?);
            mark(guards.last_mut().ok_or("one")?, "old").await?;
        }
        let cut = guards.pop();
        for one in guards {
            one.done();
        }
        let refused = sqlx::Error::Protocol("an answer of the server".to_owned());
        fixture.connections.note(&refused);
        let mut kept = fixture.acquire().await?;
        assert_eq!(marks(&mut kept).await?, ["old"]);
        kept.done();
        let eof = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        fixture.connections.note(&eof.into());
        drop(cut);
        let mut new = Vec::new();
        for _ in 0..3 {
            new.push(fixture.acquire().await?);
            assert!(marks(new.last_mut().ok_or("one")?).await?.is_empty());
        }
        assert!(fixture.is_waiting(), "there are three");
        Ok(())
    })
}

#[test]
fn the_debug_output_names_no_server() -> TestResult {
    run(async {
        let fixture = Fixture::new(1)?;
        let shown = format!("{:?} {:?}", fixture.connections, fixture.acquire().await?);
        assert!(!shown.contains("secret"), "{shown}");
        assert!(shown.contains("max: 1"), "{shown}");
        Ok(())
    })
}
