//! [`Connection`]: to one server, or to all of a cluster.

use idem_redis::redis::aio::{ConnectionLike, MultiplexedConnection};
use idem_redis::redis::cluster::ClusterClientBuilder;
use idem_redis::redis::cluster_async::ClusterConnection;
use idem_redis::redis::cluster_routing::{
    MultipleNodeRoutingInfo, RoutingInfo, SingleNodeRoutingInfo,
};
use idem_redis::redis::{
    AsyncConnectionConfig, Client, Cmd, FromRedisValue, Pipeline, RedisFuture, RedisResult, Value,
    cmd, from_redis_value,
};

use super::super::SERVER_TIMEOUT;

/// Any number of callers may use a clone at the same time.
#[derive(Clone)]
pub(super) enum Connection {
    Node(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Connection {
    /// Connects. Several URLs are nodes of a cluster.
    pub(super) async fn open(urls: &[String]) -> RedisResult<Self> {
        if let [url] = urls {
            let config = AsyncConnectionConfig::new()
                .set_connection_timeout(Some(SERVER_TIMEOUT))
                .set_response_timeout(Some(SERVER_TIMEOUT));
            let client = Client::open(url.as_str())?;
            let node = client.get_multiplexed_async_connection_with_config(&config);
            return node.await.map(Self::Node);
        }
        let client = ClusterClientBuilder::new(urls.iter().map(String::as_str))
            .connection_timeout(SERVER_TIMEOUT)
            .response_timeout(SERVER_TIMEOUT)
            .build()?;
        client.get_async_connection().await.map(Self::Cluster)
    }

    /// Returns the addresses of a cluster's masters; a single server needs none.
    pub(super) async fn masters(&mut self) -> RedisResult<Vec<Option<String>>> {
        let Self::Cluster(cluster) = self else {
            return Ok(vec![None]);
        };
        let all = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, None));
        let answers = cluster.route_command(cmd("PING"), all).await?;
        let answers: Vec<(String, Value)> = from_redis_value(answers)?;
        Ok(answers
            .into_iter()
            .map(|(address, _)| Some(address))
            .collect())
    }

    /// Runs a command at the master with this address, or at the only server.
    pub(super) async fn query_at<T: FromRedisValue>(
        &mut self,
        address: Option<&str>,
        command: &Cmd,
    ) -> RedisResult<T> {
        let address = address.and_then(|address| address.rsplit_once(':'));
        let (Self::Cluster(cluster), Some((host, port))) = (&mut *self, address) else {
            return command.query_async(self).await;
        };
        let node = SingleNodeRoutingInfo::ByAddress {
            host: host.to_owned(),
            port: port.parse().unwrap_or_default(),
        };
        let node = RoutingInfo::SingleNode(node);
        let answer = cluster.route_command(command.clone(), node).await?;
        Ok(from_redis_value(answer)?)
    }
}

impl ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::Node(node) => node.req_packed_command(cmd),
            Self::Cluster(cluster) => cluster.req_packed_command(cmd),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::Node(node) => node.req_packed_commands(pipeline, offset, count),
            Self::Cluster(cluster) => cluster.req_packed_commands(pipeline, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Self::Node(node) => node.get_db(),
            Self::Cluster(cluster) => cluster.get_db(),
        }
    }
}
