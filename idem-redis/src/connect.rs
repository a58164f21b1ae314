//! [`Connector`]: how connections are made, and [`Connection`].

use std::fmt;
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection, PubSub};
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{RoutingInfo, SingleNodeRoutingInfo};
use redis::io::tcp::TcpSettings;
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, IntoConnectionInfo,
    Pipeline, RedisResult, TlsMode, Value,
};
use tokio::sync::Mutex;

use crate::config::Config;
use crate::trust;

/// The number of requests that wait for one write to the socket: hundreds of callers share round
/// trips.
const PIPELINE_BUFFER: usize = 1024;

/// The address of the server.
pub(crate) enum Connector {
    /// One server.
    Node(Box<Client>),
    /// The current leader of the group of that name, as the sentinels report it at each connecting.
    Sentinel(Box<Mutex<SentinelClient>>, Vec<ConnectionInfo>),
    /// A cluster.
    Cluster(Box<ClusterClient>, Vec<Client>),
}

/// Sends each command at once, without Nagle's delay.
fn tcp() -> TcpSettings {
    TcpSettings::default().set_nodelay(true)
}

fn infos(urls: &[&str]) -> RedisResult<Vec<ConnectionInfo>> {
    urls.iter().map(|url| url.into_connection_info()).collect()
}

/// Sends no `CLIENT SETINFO`, at which proxies close the connection.
fn client(info: ConnectionInfo, config: &Config) -> RedisResult<Client> {
    let unnamed = info.redis_settings().clone().set_skip_set_lib_name();
    let info = info.set_redis_settings(unnamed);
    trust::client(info.set_tcp_settings(tcp()), config)
}

impl Connector {
    pub(crate) fn node(url: &str, config: &Config) -> RedisResult<Self> {
        let client = client(url.into_connection_info()?, config)?;
        Ok(Self::Node(Box::new(client)))
    }

    /// `template` has user, password, database and TLS of the servers behind the sentinels; the
    /// first of `urls` has those of the sentinels.
    pub(crate) fn sentinel(
        urls: &[&str],
        group: &str,
        template: &str,
        config: &Config,
    ) -> RedisResult<Self> {
        let server: ConnectionInfo = template.into_connection_info()?;
        let sentinels = infos(urls)?;
        let nodes = sentinels.iter().map(|sentinel| sentinel.addr().clone());
        let mut builder = SentinelClientBuilder::new(nodes, group, SentinelServerType::Master)?
            .set_client_to_redis_tcp_settings(tcp())
            .set_client_to_redis_db(server.redis_settings().db())
            .set_client_to_redis_protocol(server.redis_settings().protocol());
        if let ConnectionAddr::TcpTls { .. } = server.addr() {
            builder = builder.set_client_to_redis_tls_mode(TlsMode::Secure);
        }
        if let Some(user) = server.redis_settings().username() {
            builder = builder.set_client_to_redis_username(user);
        }
        if let Some(password) = server.redis_settings().password() {
            builder = builder.set_client_to_redis_password(password);
        }
        if let Some(sentinel) = sentinels.first() {
            if let ConnectionAddr::TcpTls { .. } = sentinel.addr() {
                builder = builder.set_client_to_sentinel_tls_mode(TlsMode::Secure);
            }
            if let Some(user) = sentinel.redis_settings().username() {
                builder = builder.set_client_to_sentinel_username(user);
            }
            if let Some(password) = sentinel.redis_settings().password() {
                builder = builder.set_client_to_sentinel_password(password);
            }
        }
        let client = trust::sentinels(builder, config)?.build()?;
        Ok(Self::Sentinel(Box::new(Mutex::new(client)), sentinels))
    }

    /// The driver itself repeats nothing: it would also repeat commands that may have taken effect.
    pub(crate) fn cluster(urls: &[&str], config: &Config) -> RedisResult<Self> {
        let builder = ClusterClientBuilder::new(urls.iter().copied())
            .retries(0)
            // A node that hangs must not use up the time for connecting to the others.
            .connection_timeout(config.timeout() / 4)
            .response_timeout(config.timeout())
            .tcp_settings(tcp());
        let client = trust::cluster(builder, config)?.build()?;
        let nodes = infos(urls)?
            .into_iter()
            .map(|info| self::client(info, config));
        let nodes = nodes.collect::<RedisResult<_>>()?;
        Ok(Self::Cluster(Box::new(client), nodes))
    }

    /// Returns whether everything is on one server.
    pub(crate) fn is_one_node(&self) -> bool {
        !matches!(self, Self::Cluster(..))
    }

    /// Returns the addresses that the user has named.
    pub(crate) fn addresses(&self) -> Vec<&ConnectionAddr> {
        match self {
            Self::Node(client) => vec![client.get_connection_info().addr()],
            Self::Sentinel(_, sentinels) => sentinels.iter().map(ConnectionInfo::addr).collect(),
            Self::Cluster(_, nodes) => {
                let nodes = nodes.iter();
                nodes
                    .map(|node| node.get_connection_info().addr())
                    .collect()
            }
        }
    }

    /// Opens a connection of its own for published messages; in a cluster to the first node that
    /// answers.
    pub(crate) async fn pubsub(&self, timeout: Duration) -> RedisResult<PubSub> {
        let nodes = match self {
            Self::Node(client) => return client.get_async_pubsub().await,
            Self::Sentinel(client, _) => {
                let client = client.lock().await.async_get_client().await?;
                return client.get_async_pubsub().await;
            }
            Self::Cluster(_, nodes) => nodes,
        };
        let mut result = Err(std::io::Error::from(std::io::ErrorKind::NotConnected).into());
        for node in nodes {
            match tokio::time::timeout(timeout, node.get_async_pubsub()).await {
                Ok(Ok(pubsub)) => return Ok(pubsub),
                Ok(Err(error)) => result = Err(error),
                Err(_) => {}
            }
        }
        result
    }

    pub(crate) async fn connect(&self, timeout: Duration) -> RedisResult<Connection> {
        // The operation's own deadline bounds each command.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(timeout))
            .set_response_timeout(None)
            .set_pipeline_buffer_size(PIPELINE_BUFFER);
        Ok(match self {
            Self::Node(client) => Connection::Node(
                client
                    .get_multiplexed_async_connection_with_config(&config)
                    .await?,
            ),
            Self::Sentinel(client, _) => {
                let mut client = client.lock().await;
                Connection::Node(client.get_async_connection_with_config(&config).await?)
            }
            Self::Cluster(client, _) => Connection::Cluster(client.get_async_connection().await?),
        })
    }
}

/// Shows no address and no password.
impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Node(_) => "Node",
            Self::Sentinel(..) => "Sentinel",
            Self::Cluster(..) => "Cluster",
        })
    }
}

/// A connection that any number of callers share: their requests are written together and answered
/// in order. A dropped request does not disturb that order
/// (<https://docs.rs/redis/latest/redis/aio/struct.MultiplexedConnection.html>).
#[derive(Clone)]
pub(crate) enum Connection {
    Node(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Connection {
    /// Sends one command, to the node that has its key.
    pub(crate) async fn command(&mut self, cmd: &Cmd) -> RedisResult<Value> {
        let answer = match self {
            Self::Node(node) => node.req_packed_command(cmd).await,
            Self::Cluster(cluster) => cluster.req_packed_command(cmd).await,
        };
        answer.and_then(Value::extract_error)
    }

    /// Sends commands of one key, one after the other on one connection; returns an answer for
    /// each, errors among them.
    pub(crate) async fn commands(&mut self, pipeline: &Pipeline) -> RedisResult<Vec<Value>> {
        let count = pipeline.len();
        match self {
            Self::Node(node) => node.req_packed_commands(pipeline, 0, count).await,
            Self::Cluster(cluster) => cluster.req_packed_commands(pipeline, 0, count).await,
        }
    }

    /// Sends commands to one node of a cluster.
    pub(crate) async fn commands_at(
        &mut self,
        (host, port): (&str, u16),
        pipeline: Pipeline,
    ) -> RedisResult<Vec<Value>> {
        let count = pipeline.len();
        match self {
            Self::Node(node) => node.req_packed_commands(&pipeline, 0, count).await,
            Self::Cluster(cluster) => {
                let host = host.to_owned();
                let node = SingleNodeRoutingInfo::ByAddress { host, port };
                cluster.route_pipeline(pipeline, 0, count, node).await
            }
        }
    }

    /// Sends one command to every master; returns each answer with its address; that of a single
    /// server has none.
    pub(crate) async fn at_masters(
        &mut self,
        cmd: &Cmd,
    ) -> RedisResult<Vec<(Option<String>, Value)>> {
        use redis::cluster_routing::MultipleNodeRoutingInfo::AllMasters;
        match self {
            Self::Node(_) => Ok(vec![(None, self.command(cmd).await?)]),
            Self::Cluster(cluster) => {
                let masters = RoutingInfo::MultiNode((AllMasters, None));
                let answers = cluster.route_command(cmd.clone(), masters).await?;
                let answers = answers.extract_error()?;
                let answers: Vec<(String, Value)> = redis::from_redis_value(answers)?;
                Ok(answers
                    .into_iter()
                    .map(|(node, answer)| (Some(node), answer))
                    .collect())
            }
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Node(_) => "Node",
            Self::Cluster(_) => "Cluster",
        })
    }
}

#[cfg(all(test, not(feature = "tls")))]
mod tests {
    use crate::error::{Access, classify};

    use super::*;

    #[test]
    fn tls_without_its_feature_names_the_feature() {
        let error = Connector::node("rediss://me:s3cret@127.0.0.1", &Config::new()).err();
        let error = classify(error.expect("no TLS is built in"), Access::Read);
        let shown = format!("{error} {error:?}");
        assert!(
            shown.contains("feature `tls`") && !shown.contains("s3cret"),
            "{shown}"
        );
    }
}
