//! Poolers with their own settings, in front of their own server.

use std::sync::Arc;
use std::time::Duration;

use idem_core::{
    BoxError, Checkpoint, CheckpointStore, Effect, Error, ErrorKind, IdempotencyStore,
    IdempotencyStoreExt, Record, Response,
};
use idem_postgres::{Config, PostgresStore, StatementMode};
use idem_servers::{Durability, Instance, Options, start_private};
use idem_stores::ServerUrl;
use sqlx::postgres::PgPoolOptions;
use sqlx::{Connection, PgConnection, PgPool};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::{HOUR, request};

fn pooler(upstream: &Instance, settings: &[(&str, &str)]) -> Result<Instance, BoxError> {
    let options = Options::new().with_upstream(upstream.url());
    let options = settings.iter().fold(options, |options, (name, value)| {
        options.with_setting(*name, *value)
    });
    Ok(start_private("pgbouncer", &options)?)
}

fn unprepared() -> Config {
    Config::new().with_statement_mode(StatementMode::Unprepared)
}

/// The commit waits for a standby that does not exist. Its server process is ended, and the pooler
/// reports with its own code that the answer is lost. The record is completed.
pub(crate) fn lost_commit(runtime: &Runtime) -> Result<(), BoxError> {
    let durable = Options::new().with_durability(Durability::Durable);
    let server = start_private("postgres", &durable)?;
    let pooler = pooler(&server, &[])?;
    runtime.block_on(async {
        let store = PostgresStore::connect(pooler.url(), unprepared()).await?;
        store.migrate().await?;
        let mut claims = Vec::new();
        for number in 0..100 {
            let claim = store.claim(&request(format!("{number}"))).await?;
            claims.push(claim.acquired().ok_or("a fresh key")?);
        }
        let mut admin = PgConnection::connect(server.url()).await?;
        for sql in [
            "ALTER SYSTEM SET synchronous_standby_names = 'nobody'",
            "SELECT pg_reload_conf()",
        ] {
            sqlx::raw_sql(sql).execute(&mut admin).await?;
        }
        let done = Response::new(200, "done");
        // A commit waits from the moment when the server has read its new setting.
        let (claim, completing) = loop {
            let claim = claims.pop().ok_or("no commit has waited")?;
            let completing = tokio::spawn({
                let (store, claim, done) = (store.clone(), claim.clone(), done.clone());
                async move { store.complete(&claim, &done, HOUR).await }
            });
            if is_killed_while_it_waits(&mut admin, &completing).await? {
                break (claim, completing);
            }
            completing.await??;
        };
        let error = completing.await?.expect_err("its answer is lost");
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Unavailable, Effect::Unknown),
            "{error}"
        );
        assert!(error.is_retryable());
        let off = "ALTER SYSTEM RESET synchronous_standby_names";
        sqlx::raw_sql(off).execute(&mut admin).await?;
        sqlx::raw_sql("SELECT pg_reload_conf()")
            .execute(&mut admin)
            .await?;
        let record = store.get(claim.key()).await?;
        assert!(
            matches!(record, Some(Record::Completed(_))),
            "it has happened"
        );
        store.complete(&claim, &done, HOUR).await?;
        Ok(())
    })
}

/// Ends the server process whose commit waits; returns whether one did.
async fn is_killed_while_it_waits<T>(
    admin: &mut PgConnection,
    completing: &JoinHandle<T>,
) -> Result<bool, BoxError> {
    let killed = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE wait_event = 'SyncRep'";
    while !completing.is_finished() {
        let process = sqlx::raw_sql(killed).fetch_optional(&mut *admin).await?;
        if process.is_some() {
            return Ok(true);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(false)
}

/// The pooler lets no more clients in: the error is retryable, and nothing was sent.
pub(crate) fn full(runtime: &Runtime) -> Result<(), BoxError> {
    let server = start_private("postgres", &Options::new())?;
    let pooler = pooler(&server, &[("max_client_conn", "3")])?;
    runtime.block_on(async {
        PostgresStore::connect(server.url(), Config::new())
            .await?
            .migrate()
            .await?;
        let pool = PgPoolOptions::new().connect_lazy(pooler.url())?;
        let store = PostgresStore::with_config(pool, unprepared());
        let mut others = Vec::new();
        while let Ok(other) = PgConnection::connect(pooler.url()).await {
            others.push(other);
        }
        for error in [
            store.claim(&request("one")).await.expect_err("it is full"),
            PostgresStore::connect(pooler.url(), unprepared())
                .await
                .expect_err("it is full"),
        ] {
            assert_eq!(
                (error.kind(), error.effect()),
                (ErrorKind::Unavailable, Effect::None),
                "{error}"
            );
            assert!(error.is_retryable());
        }
        for other in others {
            other.close().await?;
        }
        let retry_timeout = Duration::from_secs(30);
        let again = store.claim_retrying(&request("one"), retry_timeout).await?;
        assert!(again.acquired().is_some());
        Ok(())
    })
}

/// Starts a proxy that serves so many connections at a time; the others wait, as in `HAProxy`'s queue.
async fn queue(server: &ServerUrl, most: usize) -> Result<ServerUrl, BoxError> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let url = server.through(listener.local_addr()?);
    let address = server.address().ok_or("an address")?;
    let served = Arc::new(Semaphore::new(most));
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let served = Arc::clone(&served);
            tokio::spawn(async move {
                let _turn = served.acquire().await;
                let mut server = TcpStream::connect(address).await?;
                copy_bidirectional(&mut client, &mut server).await
            });
        }
    });
    Ok(url)
}

/// The sixth connection is accepted and never served: nobody waits for it who can have another.
pub(crate) fn queued(runtime: &Runtime) -> Result<(), BoxError> {
    let started = start_private("postgres", &Options::new())?;
    let server = ServerUrl::from(started.url());
    runtime.block_on(async {
        let direct = PostgresStore::connect(server.as_str(), Config::new()).await?;
        direct.migrate().await?;
        for batching in [true, false] {
            let config = Config::new().with_batching(batching);
            let url = queue(&server, 5).await?;
            let store = PostgresStore::connect(url.as_str(), config).await?;
            let mut callers = tokio::task::JoinSet::new();
            for caller in 0..16 {
                let store = store.clone();
                callers.spawn(async move {
                    for run in 0..25 {
                        let request = request(format!("{batching} {caller} {run}"));
                        let claim = store.claim(&request).await?.acquired();
                        let claim = claim.ok_or_else(Error::claim_lost)?;
                        store
                            .complete(&claim, &Response::new(200, ""), HOUR)
                            .await?;
                    }
                    Ok::<_, Error>(())
                });
            }
            while let Some(done) = callers.join_next().await {
                done??;
            }
        }
        let pool = PgPoolOptions::new().max_connections(7);
        let pool = pool.connect_lazy(queue(&server, 0).await?.as_str())?;
        let config = Config::new().with_timeout(Duration::from_millis(100));
        let store = PostgresStore::with_config(pool, config);
        let error = store.claim(&request("one")).await.expect_err("it is full");
        assert!(error.to_string().contains("all 7 are in use"), "{error}");
        Ok(())
    })
}

/// In transaction mode, with many servers or one, prepared statements do not work; in session mode
/// they do.
pub(crate) fn refused(runtime: &Runtime) -> Result<(), BoxError> {
    let server = start_private("postgres", &Options::new())?;
    for (settings, works) in [
        (&[][..], false),
        (&[("default_pool_size", "1")][..], false),
        (&[("server_round_robin", "1")][..], false),
        (&[("pool_mode", "session")][..], true),
    ] {
        let pooler = pooler(&server, settings)?;
        runtime.block_on(async {
            let connected = PostgresStore::connect(pooler.url(), Config::new()).await;
            match connected {
                Ok(_) => assert!(works, "{settings:?}: not noticed"),
                Err(error) => {
                    assert!(!works, "{settings:?}: {error}");
                    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
                    assert!(error.to_string().contains("StatementMode::Unprepared"));
                }
            }
            PostgresStore::connect(pooler.url(), unprepared()).await?;
            Ok::<_, BoxError>(())
        })?;
    }
    Ok(())
}

/// Untested pools of the caller's: a statement refuses values that were meant for another.
pub(crate) fn mixed_up(runtime: &Runtime) -> Result<(), BoxError> {
    let server = start_private("postgres", &Options::new())?;
    let pooler = pooler(&server, &[("default_pool_size", "4")])?;
    runtime.block_on(async {
        let direct = PostgresStore::connect(server.url(), Config::new()).await?;
        direct.migrate().await?;
        let pool = || -> Result<PgPool, BoxError> {
            let options: sqlx::postgres::PgConnectOptions = pooler.url().parse()?;
            let pool = PgPoolOptions::new().max_connections(6);
            let pool = pool.test_before_acquire(false);
            Ok(pool.connect_lazy_with(options.extra_float_digits(None)))
        };
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..12 {
            let store = PostgresStore::new(pool()?);
            let direct = direct.clone();
            tasks.spawn(async move { steps(&store, &direct, task).await });
        }
        let mut refused = 0;
        while let Some(done) = tasks.join_next().await {
            refused += done.map_err(|error| format!("it panicked: {error}"))??;
        }
        assert!(refused > 0, "nothing was mixed up, so nothing was tried");
        Ok(())
    })
}

/// Renewals of some claims, checkpoints of others, in different orders: a checkpoint is the one
/// that its holder stored, and a record without one has none.
async fn steps(
    store: &PostgresStore,
    direct: &PostgresStore,
    task: usize,
) -> Result<usize, BoxError> {
    let mut refused = 0;
    for round in 0..30 {
        let claim = direct.claim(&request(format!("{task}-{round}"))).await?;
        let claim = claim.acquired().ok_or("a fresh key")?;
        let checkpoint = Checkpoint::new("half", format!("{task}-{round}"))?;
        let returned = match task % 3 {
            0 => store.renew(&claim, HOUR).await.map(drop),
            1 => store.checkpoint(&claim, &checkpoint).await,
            _ => store.get(claim.key()).await.map(drop),
        };
        if let Err(error) = &returned {
            assert_ne!(error.kind(), ErrorKind::Corrupt, "{error}");
            assert_ne!(error.kind(), ErrorKind::ClaimLost, "{error}");
            refused += 1;
        }
        let stored = direct.last_checkpoint(&claim).await?;
        let expected = (task % 3 == 1).then_some(&checkpoint);
        match returned {
            Ok(()) => assert_eq!(stored.as_ref(), expected),
            Err(_) => assert!(stored.is_none() || stored.as_ref() == expected),
        }
    }
    Ok(refused)
}
