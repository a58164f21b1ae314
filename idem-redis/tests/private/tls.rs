//! TLS.

use idem_core::{Effect, ErrorKind};
use idem_redis::{Config, RedisStore};
use idem_servers::{Options, Transport, start_private};
use tokio::runtime::Runtime;

use crate::own::Outcome;

/// The store does not trust the authority.
#[cfg(feature = "tls")]
pub(crate) fn untrusted(runtime: &Runtime, server: &str) -> Outcome {
    let server = start_private(server, &Options::new().with_transport(Transport::Tls))?;
    let url = server.tls_url().ok_or("no TLS")?;
    runtime.block_on(async {
        let error = RedisStore::connect(&url, Config::new()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        assert_eq!(error.effect(), Effect::None, "{error}");
        assert!(error.to_string().contains("certificate"), "{error}");
        // Only the certificate was wrong.
        RedisStore::connect(server.url(), Config::new()).await?;
        Ok(())
    })
}

/// The store trusts the authority. Without the feature the error says that the certificate has no
/// use.
pub(crate) fn trusted(runtime: &Runtime, server: &str) -> Outcome {
    let server = start_private(server, &Options::new().with_transport(Transport::Tls))?;
    let url = server.tls_url().ok_or("no TLS")?;
    let authority = std::fs::read(server.ca_certificate().ok_or("no certificate")?)?;
    let config = Config::new().with_root_certificate(authority);
    runtime.block_on(async {
        let connected = RedisStore::connect(&url, config.clone()).await;
        if cfg!(feature = "tls") {
            let store = connected?;
            let request = crate::own::request("one");
            let claim = idem_core::IdempotencyStore::claim(&store, &request).await?;
            assert!(claim.acquired().is_some());
            // The server's certificate is for `localhost` and 127.0.0.1.
            let elsewhere = url.replace("localhost", "127.0.0.2");
            let error = RedisStore::connect(&elsewhere, config).await.unwrap_err();
            assert_ne!(error.effect(), Effect::Unknown, "{error}");
        } else {
            let error = connected.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        }
        Ok(())
    })
}

/// A URL with TLS for a port without, and the other way round.
pub(crate) fn mismatched(runtime: &Runtime, server: &str) -> Outcome {
    let server = start_private(server, &Options::new().with_transport(Transport::Tls))?;
    let url = server.tls_url().ok_or("no TLS")?;
    let (plain, tls) = (server.url(), url.replace("rediss://", "redis://"));
    // Only the answer may end the attempt.
    let config = Config::new().with_timeout(crate::own::HOUR);
    runtime.block_on(async {
        let mut cases = vec![(tls.clone(), "requires TLS on this port")];
        if cfg!(feature = "tls") {
            cases.push((
                plain.replace("redis://", "rediss://"),
                "no TLS on this port",
            ));
        }
        for (url, advice) in cases {
            for nodes in [false, true] {
                let error = match nodes {
                    false => RedisStore::connect(&url, config.clone()).await,
                    true => {
                        RedisStore::connect_sentinel(&[&url], "main", plain, config.clone()).await
                    }
                }
                .unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
                assert_eq!(error.effect(), Effect::None, "{error}");
                assert!(error.to_string().contains(advice), "{error}");
            }
        }
        Ok(())
    })
}
