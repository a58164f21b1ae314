//! Redis and Valkey: one server, a cluster, or the leader behind sentinels.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use idem_core::BatchStore;
use idem_redis::redis::aio::MultiplexedConnection;
use idem_redis::redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue, cmd};
use idem_redis::{Config, Eviction, RedisStore};

use super::{Backend, Purpose, refuse_schema, unanswered};
use crate::args::StoreArgs;
use crate::doctor::Findings;
use crate::failure::{Failure, Result};
use crate::url::StoreUrl;

/// Where the servers are.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Address {
    Node(String),
    Cluster(Vec<String>),
    /// The sentinels, the group, and a URL with login and TLS of its servers.
    Sentinel(Vec<String>, String, String),
}

struct Redis {
    store: RedisStore,
    address: Address,
    timeout: Duration,
}

/// Reads the address: one URL, URLs with commas, or a scheme of this program with hosts and commas.
pub(super) fn address(url: &StoreUrl) -> Result<Address> {
    let scheme = url.scheme();
    let Some((base, kind)) = scheme.split_once('-') else {
        let nodes: Vec<_> = url.nodes().into_iter().map(str::to_owned).collect();
        return Ok(match <[String; 1]>::try_from(nodes) {
            Ok([node]) => Address::Node(node),
            Err(nodes) => Address::Cluster(nodes),
        });
    };
    let (login, rest) = url.login_and_rest();
    let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
    let hosts = hosts
        .split(',')
        .map(str::trim)
        .filter(|host| !host.is_empty());
    let group = path.split('?').next().unwrap_or_default();
    if kind == "cluster" {
        let nodes: Vec<_> = hosts
            .map(|host| format!("{base}://{login}{host}"))
            .collect();
        return match nodes.is_empty() {
            false => Ok(Address::Cluster(nodes)),
            true => Err(Failure::usage(
                "the URL names no host; it is redis-cluster://host:port,host:port",
            )),
        };
    }
    let sentinels: Vec<_> = hosts.map(|host| format!("redis://{host}")).collect();
    if sentinels.is_empty() || group.is_empty() {
        return Err(Failure::usage(
            "the URL names no host or no group; it is redis-sentinel://user:password@host:26379,host:26379/GROUP",
        ));
    }
    Ok(Address::Sentinel(
        sentinels,
        group.to_owned(),
        format!("{base}://{login}any"),
    ))
}

pub(super) async fn connect(args: &StoreArgs, purpose: Purpose) -> Result<Box<dyn Backend>> {
    refuse_schema(args, "Redis")?;
    let mut config = Config::new().with_timeout(args.timeout);
    if let Some(namespace) = &args.table {
        config = config.with_namespace(namespace)?;
    }
    // A server that may drop records can still be listed, and `doctor` tells of it.
    if matches!(purpose, Purpose::Use | Purpose::Examine) {
        config = config.with_eviction(Eviction::Accept);
    }
    let address = address(args.url()?)?;
    let store = match &address {
        Address::Node(url) => RedisStore::connect(url, config).await?,
        Address::Cluster(urls) => {
            let urls: Vec<_> = urls.iter().map(String::as_str).collect();
            RedisStore::connect_cluster(&urls, config).await?
        }
        Address::Sentinel(urls, group, template) => {
            let urls: Vec<_> = urls.iter().map(String::as_str).collect();
            RedisStore::connect_sentinel(&urls, group, template, config).await?
        }
    };
    Ok(Box::new(Redis {
        store,
        address,
        timeout: args.timeout,
    }))
}

#[async_trait]
impl Backend for Redis {
    fn store(&self) -> Arc<dyn BatchStore> {
        Arc::new(self.store.clone())
    }

    /// There is nothing to create.
    async fn migrate(&self) -> idem_core::Result<()> {
        self.store.verify().await
    }

    async fn verify(&self) -> idem_core::Result<()> {
        self.store.verify().await
    }

    async fn examine(&self, findings: &mut Findings) -> Result<()> {
        let urls = self.servers().await?;
        let count = urls.len();
        for (index, url) in urls.iter().enumerate() {
            if count > 1 {
                let shown = StoreUrl::from(url.clone());
                findings.ok("node", format!("{} of {count}: {shown}", index + 1));
            }
            self.examine_node(url, findings).await?;
        }
        Ok(())
    }

    #[cfg(feature = "certify")]
    async fn destroy(&self) -> Result<()> {
        let pattern = format!("{}:*", self.store.config().namespace());
        for url in self.servers().await? {
            let mut node = self.node(&url).await?;
            let role: String = ask(&mut node, cmd("INFO").arg("replication")).await?;
            if info(&role)
                .get("role")
                .is_some_and(|role| *role != "master")
            {
                continue;
            }
            let mut cursor = 0_u64;
            loop {
                let mut scan = cmd("SCAN");
                scan.arg(cursor)
                    .arg("MATCH")
                    .arg(&pattern)
                    .arg("COUNT")
                    .arg(1_000);
                let (next, keys): (u64, Vec<Vec<u8>>) = ask(&mut node, &scan).await?;
                for key in keys {
                    let () = ask(&mut node, cmd("UNLINK").arg(key)).await?;
                }
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(())
    }
}

impl Redis {
    /// Returns the URLs of the servers with the records: of a cluster those that the user names.
    async fn servers(&self) -> Result<Vec<String>> {
        let (sentinels, group, template) = match &self.address {
            Address::Node(url) => return Ok(vec![url.clone()]),
            Address::Cluster(urls) => return Ok(urls.clone()),
            Address::Sentinel(sentinels, group, template) => (sentinels, group, template),
        };
        for sentinel in sentinels {
            let Ok(mut node) = self.node(sentinel).await else {
                continue;
            };
            let mut leader = cmd("SENTINEL");
            leader.arg("get-master-addr-by-name").arg(group);
            if let Ok((host, port)) = ask::<(String, String)>(&mut node, &leader).await {
                let login = template.strip_suffix("any").unwrap_or_default();
                return Ok(vec![format!("{login}{host}:{port}")]);
            }
        }
        Err(Failure::store("no sentinel named the leader of the group"))
    }

    async fn node(&self, url: &str) -> Result<MultiplexedConnection> {
        let client = Client::open(url).map_err(|error| unanswered("a connection", error))?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.timeout))
            .set_response_timeout(Some(self.timeout));
        let node = client.get_multiplexed_async_connection_with_config(&config);
        node.await
            .map_err(|error| unanswered("a connection", error))
    }

    async fn examine_node(&self, url: &str, findings: &mut Findings) -> Result<()> {
        let mut node = self.node(url).await?;
        let all: String = ask(&mut node, &cmd("INFO")).await?;
        let info = info(&all);
        let field = |name: &str| info.get(name).copied().unwrap_or_default();
        let (product, version) = match field("valkey_version") {
            "" => ("Redis", field("redis_version")),
            version => ("Valkey", version),
        };
        let mode = match field("redis_mode") {
            "" => field("server_mode"),
            mode => mode,
        };
        findings.ok("version", format!("{product} {version}, {mode}"));
        let asked = node.clone();
        findings.clock(move || time(asked.clone())).await?;
        match field("role") {
            "master" => findings.ok(
                "role",
                format!("master, {} replicas", field("connected_slaves")),
            ),
            "" => findings.unseen("role", "INFO does not show it"),
            _ if matches!(self.address, Address::Cluster(_)) => findings.ok("role", "replica"),
            role => findings.error("role", role, "claims need the master; connect to it"),
        }
        let settings = settings(&mut node).await;
        let setting = |name: &str| settings.get(name).map(String::as_str);
        persistence(findings, setting);
        eviction(findings, field("maxmemory"), field("maxmemory_policy"));
        let is_on = url.starts_with("rediss") || url.starts_with("valkeys");
        let is_local = StoreUrl::from(url.to_owned()).is_local();
        findings.tls(is_on, is_local, "use a rediss:// URL");
        Ok(())
    }
}

async fn ask<T: FromRedisValue>(node: &mut MultiplexedConnection, command: &Cmd) -> Result<T> {
    let answer = command.query_async(node).await;
    answer.map_err(|error| unanswered("its settings", error))
}

async fn time(mut node: MultiplexedConnection) -> Result<i64> {
    let (seconds, micros): (i64, i64) = ask(&mut node, &cmd("TIME")).await?;
    Ok(seconds.saturating_mul(1_000_000).saturating_add(micros))
}

/// Returns the settings that the user may see; managed services often hide all.
async fn settings(node: &mut MultiplexedConnection) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    for name in ["appendonly", "appendfsync", "save"] {
        let answer: Result<BTreeMap<String, String>> =
            ask(node, cmd("CONFIG").arg("GET").arg(name)).await;
        settings.extend(answer.unwrap_or_default());
    }
    settings
}

fn info(text: &str) -> BTreeMap<&str, &str> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.map(|(name, value)| (name, value.trim())).collect()
}

fn persistence<'s>(findings: &mut Findings, setting: impl Fn(&str) -> Option<&'s str>) {
    let save = setting("save").unwrap_or_default();
    match (setting("appendonly"), setting("appendfsync").unwrap_or_default()) {
        (None, _) => findings.unseen(
            "persistence",
            "the user may not read CONFIG; see `appendonly`, `appendfsync` and `save` of the server or the service",
        ),
        (Some("yes"), "always") => findings.ok("persistence", "appendonly yes, appendfsync always"),
        (Some("yes"), fsync) => findings.warning(
            "persistence",
            format!("appendonly yes, appendfsync {fsync}"),
            "a crash of the machine loses the last claims and results, with everysec up to two seconds; set \
             appendfsync to always",
        ),
        _ => findings.error(
            "persistence",
            format!("appendonly no, save \"{save}\""),
            "a crash loses all records since the last snapshot, and without snapshots each restart loses all; their \
             work may run again: set appendonly to yes and appendfsync to always",
        ),
    }
}

fn eviction(findings: &mut Findings, limit: &str, policy: &str) {
    match (limit, policy) {
        (_, "") => findings.unseen("eviction", "see `maxmemory-policy`; it has to be noeviction"),
        (_, "noeviction") => findings.ok("eviction", "noeviction"),
        ("" | "0", policy) => findings.warning(
            "eviction",
            format!("{policy}, without a limit of memory"),
            "with a limit the server would drop records; set maxmemory-policy to noeviction",
        ),
        (_, policy) => findings.error(
            "eviction",
            policy,
            "the server drops claims and results when memory is short; `CONFIG SET maxmemory-policy noeviction`",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    fn read(url: &str) -> Address {
        address(&StoreUrl::from(url.to_owned())).unwrap()
    }

    #[test]
    fn a_url_is_one_server_a_cluster_or_a_group() {
        let node = |url: &str| Address::Node(url.to_owned());
        assert!(read("redis://:p@a:1/0") == node("redis://:p@a:1/0"));
        let two = Address::Cluster(vec!["redis://:p@a:1".into(), "redis://:p@b:2".into()]);
        assert!(read("redis://:p@a:1,redis://:p@b:2") == two);
        assert!(read("redis-cluster://:p@a:1,b:2") == two);
        let one = Address::Cluster(vec!["rediss://a:1".into()]);
        assert!(read("rediss-cluster://a:1/") == one);
        let sentinels = vec!["redis://a:1".to_owned(), "redis://b".to_owned()];
        let group = Address::Sentinel(sentinels, "main".into(), "redis://me:p@any".into());
        assert!(read("redis-sentinel://me:p@a:1,b/main") == group);
        for wrong in [
            "redis-cluster://",
            "redis-sentinel://a:1",
            "redis-sentinel:///main",
        ] {
            assert!(
                address(&StoreUrl::from(wrong.to_owned())).is_err(),
                "{wrong}"
            );
        }
    }

    #[test]
    fn settings_that_lose_records_are_found() {
        let level = |appendonly, fsync, save| {
            let mut findings = Findings::default();
            persistence(&mut findings, |name| match name {
                "appendonly" => appendonly,
                "appendfsync" => Some(fsync),
                _ => Some(save),
            });
            findings.all().first().map(|finding| finding.level)
        };
        assert_eq!(level(Some("yes"), "always", ""), Some(Level::Ok));
        assert_eq!(level(Some("yes"), "everysec", ""), Some(Level::Warning));
        assert_eq!(level(Some("no"), "always", "3600 1"), Some(Level::Error));
        assert_eq!(level(None, "", ""), Some(Level::Warning));
    }

    #[test]
    fn a_server_that_drops_records_is_found() {
        let level = |limit, policy| {
            let mut findings = Findings::default();
            eviction(&mut findings, limit, policy);
            findings.all().first().map(|finding| finding.level)
        };
        assert_eq!(level("0", "noeviction"), Some(Level::Ok));
        assert_eq!(level("0", "allkeys-lru"), Some(Level::Warning));
        assert_eq!(level("1000", "volatile-ttl"), Some(Level::Error));
    }
}
