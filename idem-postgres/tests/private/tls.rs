//! TLS.

use std::sync::Arc;
use std::time::Duration;

use idem_core::{BoxError, ErrorKind, IdempotencyStore};
use idem_postgres::{Config, PostgresStore};
use idem_servers::{Instance, Options, Transport, start_private};
use sqlx::Row;
use sqlx::postgres::PgPoolOptions;
use tokio::runtime::Runtime;

use crate::{request, store};

pub(crate) fn verified(runtime: &Runtime) -> Result<(), BoxError> {
    let server = Arc::new(start_private(
        "postgres",
        &Options::new().with_transport(Transport::Tls),
    )?);
    let certificate = server
        .ca_certificate()
        .ok_or("the server has no certificate")?;
    runtime.block_on(async {
        let verified = with_parameters(
            &server,
            &format!("sslmode=verify-ca&sslrootcert={}", certificate.display()),
        );
        let store = store(&verified).await?;
        let row = sqlx::query("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()");
        assert!(
            row.fetch_one(store.pool()).await?.try_get::<bool, _>(0)?,
            "no TLS"
        );
        assert!(store.claim(&request("one")).await?.acquired().is_some());
        let unknown = with_parameters(&server, "sslmode=verify-full");
        let error = PostgresStore::connect(&unknown, Config::new())
            .await
            .expect_err("not trusted");
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        Ok(())
    })
}

/// sqlx 0.9.0 waits for ever where it closes a connection that is neither at its end nor told so.
pub(crate) fn unread_refusals(runtime: &Runtime) -> Result<(), BoxError> {
    let server = Arc::new(start_private(
        "postgres",
        &Options::new().with_transport(Transport::Tls),
    )?);
    runtime.block_on(async {
        let url = with_parameters(&server, "sslmode=require");
        let own = store(&url).await?;
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(Duration::from_secs(10));
        let on_a_pool = PostgresStore::new(pool.connect(&url).await?);
        let mut holder = own.pool().begin().await?;
        let held = request("held");
        let claim = own.claim_in(&mut holder, &held).await?.acquired();
        assert!(claim.is_some(), "the key has a record");
        // More than either pool has connections. A busy machine may see some refusals in time.
        let (mut dropped, brief) = ((0, 0), Duration::from_millis(30));
        for number in 0..100 {
            let mut transaction = own.pool().begin().await?;
            let claiming = own.claim_in(&mut transaction, &held);
            match tokio::time::timeout(brief, claiming).await {
                Ok(told) => assert_eq!(told.unwrap_err().kind(), ErrorKind::Contention),
                Err(_) => dropped.0 += 1,
            }
            drop(transaction);
            match tokio::time::timeout(brief, on_a_pool.claim(&held)).await {
                Ok(told) => assert_eq!(told.unwrap_err().kind(), ErrorKind::Contention),
                Err(_) => dropped.1 += 1,
            }
            let other = on_a_pool.claim(&request(format!("other-{number}"))).await?;
            assert!(other.acquired().is_some());
            if dropped.0.min(dropped.1) > 11 {
                break;
            }
        }
        assert!(dropped.0.min(dropped.1) > 11, "dropped {dropped:?}");
        holder.rollback().await?;
        assert!(on_a_pool.claim(&held).await?.acquired().is_some());
        Ok(())
    })
}

fn with_parameters(server: &Instance, parameters: &str) -> String {
    let separator = if server.url().contains('?') { '&' } else { '?' };
    format!("{}{separator}{parameters}", server.url())
}
