//! The trusted certificates.

use redis::cluster::ClusterClientBuilder;
use redis::sentinel::SentinelClientBuilder;
use redis::{Client, ConnectionInfo, RedisResult};

use crate::config::Config;

#[cfg(feature = "tls")]
fn certificates(pem: &[u8]) -> redis::TlsCertificates {
    redis::TlsCertificates {
        client_tls: None,
        root_cert: Some(pem.to_vec()),
    }
}

/// Without TLS a certificate has no use.
#[cfg(not(feature = "tls"))]
fn no_tls() -> redis::RedisError {
    let message =
        "a root certificate is given, but `idem-redis` is built without its feature `tls`";
    (redis::ErrorKind::InvalidClientConfig, message).into()
}

pub(crate) fn client(info: ConnectionInfo, config: &Config) -> RedisResult<Client> {
    match config.root_certificate() {
        None => Client::open(info),
        #[cfg(feature = "tls")]
        Some(pem) => Client::build_with_tls(info, certificates(pem)),
        #[cfg(not(feature = "tls"))]
        Some(_) => Err(no_tls()),
    }
}

pub(crate) fn cluster(
    builder: ClusterClientBuilder,
    config: &Config,
) -> RedisResult<ClusterClientBuilder> {
    match config.root_certificate() {
        None => Ok(builder),
        #[cfg(feature = "tls")]
        Some(pem) => Ok(builder.certs(certificates(pem))),
        #[cfg(not(feature = "tls"))]
        Some(_) => Err(no_tls()),
    }
}

pub(crate) fn sentinels(
    builder: SentinelClientBuilder,
    config: &Config,
) -> RedisResult<SentinelClientBuilder> {
    match config.root_certificate() {
        None => Ok(builder),
        #[cfg(feature = "tls")]
        Some(pem) => Ok(builder
            .set_client_to_redis_certificates(certificates(pem))
            .set_client_to_sentinel_certificates(certificates(pem))),
        #[cfg(not(feature = "tls"))]
        Some(_) => Err(no_tls()),
    }
}
