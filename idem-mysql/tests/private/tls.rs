//! TLS.

use std::sync::Arc;

use idem_core::{BoxError, ErrorKind, IdempotencyStore};
use idem_mysql::{Config, MySqlStore};
use idem_servers::{Instance, Options, Transport, start_private};
use sqlx::Row;
use tokio::runtime::Runtime;

use crate::{request, store};

pub(crate) fn verified(runtime: &Runtime, server: &str) -> Result<(), BoxError> {
    let server = Arc::new(start_private(
        server,
        &Options::new().with_transport(Transport::Tls),
    )?);
    let certificate = server
        .ca_certificate()
        .ok_or("the server has no certificate")?;
    runtime.block_on(async {
        let verified = with_parameters(
            &server,
            &format!("ssl-mode=VERIFY_CA&ssl-ca={}", certificate.display()),
        );
        let store = store(&verified).await?;
        let cipher = sqlx::raw_sql("SHOW SESSION STATUS LIKE 'Ssl_cipher'");
        let cipher = cipher.fetch_one(store.pool()).await?;
        assert!(!cipher.try_get::<String, _>(1)?.is_empty(), "no TLS");
        assert!(store.claim(&request("one")).await?.acquired().is_some());
        let unknown = with_parameters(&server, "ssl-mode=VERIFY_IDENTITY");
        let error = MySqlStore::connect(&unknown, Config::new())
            .await
            .expect_err("not trusted");
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        Ok(())
    })
}

fn with_parameters(server: &Instance, parameters: &str) -> String {
    let separator = if server.url().contains('?') { '&' } else { '?' };
    format!("{}{separator}{parameters}", server.url())
}
