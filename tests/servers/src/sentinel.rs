use std::path::Path;
use std::process::Command;

use crate::redis::{field, info, probe, server, url};
use crate::server::Kind;
use crate::tools::{decoded, parse};
use crate::{Error, Product, Result, Server, Site};

const CONFIGURATION: &str = "sentinel.conf";
const PRODUCT: &str = "Redis Sentinel";

/// One Redis Sentinel that decides alone, for tests only: it watches the master at
/// [`Options::with_upstream`](crate::Options::with_upstream) under the name
/// [`MASTER`](Self::MASTER). It promotes a replica when the master has not answered for two
/// seconds, or for the setting `down-after-milliseconds`. It pings at most once a second, so with a
/// shorter time it treats a living master as dead. Settings are Sentinel's, for that master.
///
/// Start it with [`start_private`](crate::start_private)`("redis-sentinel", …)` once the replicas
/// follow their master: it counts as started when it knows all of them. It finds a replica that is
/// added later within ten seconds.
#[derive(Clone, Copy, Debug)]
pub struct RedisSentinel;

impl RedisSentinel {
    /// The name of the master that it watches.
    pub const MASTER: &'static str = "idem";
}

/// The sentinel program is the server program.
pub(crate) static SERVER: Server = Server {
    product: PRODUCT,
    packages: &["redis-server"],
    programs: &["redis-server"],
    accounts: &["redis", "nobody"],
    upstream: Some("redis"),
    takes_settings: true,
    ..Server::new("redis-sentinel", &RedisSentinel)
};

impl Kind for RedisSentinel {
    /// Writes its configuration, which is also its memory: it records which server it promoted.
    fn prepare(&self, site: &Site<'_>) -> Result<()> {
        let text = configuration(upstream(site)?, site.port, &site.options.settings)?;
        site.write(CONFIGURATION, &text).map(drop)
    }

    fn command(&self, site: &Site<'_>) -> Command {
        let mut command = server(site);
        command.arg(site.path(CONFIGURATION)).arg("--sentinel");
        command
    }

    fn url(&self, port: u16) -> String {
        url(port)
    }

    fn probe(&self, url: &str, programs: &Path) -> Result<Product> {
        let mut product = probe(PRODUCT, url, programs)?;
        if product.name != PRODUCT {
            product.name += " Sentinel";
        }
        Ok(product)
    }

    /// At first the master of its configuration has to answer, with as many replicas as it has.
    /// After a restart it may have found another, and a dead one beside it.
    fn is_ready(&self, site: &Site<'_>) -> Result<()> {
        let own = info(&site.url(), site.programs)?;
        let watched = field(&own, "master0").unwrap_or_default();
        let master = info(upstream(site)?, site.programs).unwrap_or_default();
        let wanted = field(&master, "connected_slaves").unwrap_or("0");
        if known(watched) >= wanted.parse().ok() {
            return Ok(());
        }
        let what = format!("{wanted} replicas are to be watched: {watched}");
        Err(Error::failed(what))
    }
}

fn upstream<'a>(site: &'a Site<'_>) -> Result<&'a str> {
    let upstream = site.options.upstream.as_deref();
    upstream.ok_or_else(|| Error::setting("redis-sentinel needs the URL of a redis"))
}

fn configuration(master: &str, port: u16, settings: &[(String, String)]) -> Result<String> {
    let name = RedisSentinel::MASTER;
    let master = parse(master)?;
    let mut text = format!(
        "port {port}\n\
         bind 127.0.0.1\n\
         protected-mode no\n\
         sentinel monitor {name} {host} {watched} 1\n\
         sentinel down-after-milliseconds {name} 2000\n\
         sentinel failover-timeout {name} 3000\n",
        host = master.host_str().unwrap_or("127.0.0.1"),
        watched = master.port().unwrap_or(6379),
    );
    if let Some(password) = decoded(master.password()) {
        text += &format!("sentinel auth-pass {name} {password}\n");
    }
    for (setting, value) in settings {
        text += &format!("sentinel {setting} {name} {value}\n");
    }
    Ok(text)
}

/// Returns how many replicas it knows of a running master, from
/// `name=idem,status=ok,address=…,slaves=1,sentinels=1`.
fn known(watched: &str) -> Option<u32> {
    let mut fields = watched.split(',').filter_map(|field| field.split_once('='));
    let is_up = fields.any(|field| field == ("status", "ok"));
    let (_, count) = fields.find(|(name, _)| *name == "slaves")?;
    count.parse().ok().filter(|_| is_up)
}

#[cfg(test)]
mod tests {
    use super::{configuration, known};

    #[test]
    fn the_master_is_named_with_its_address_and_settings() {
        let settings = [("failover-timeout".to_owned(), "9000".to_owned())];
        let text = configuration("redis://127.0.0.1:7001", 7002, &settings).unwrap();
        assert!(text.starts_with("port 7002\n"), "{text}");
        let line = "sentinel monitor idem 127.0.0.1 7001 1\n";
        assert!(text.contains(line), "{text}");
        assert!(
            text.ends_with("sentinel failover-timeout idem 9000\n"),
            "{text}"
        );
    }

    #[test]
    fn replicas_are_counted_of_a_master_that_is_up() {
        let watched = "name=idem,status=ok,address=127.0.0.1:7001,slaves=2,sentinels=1";
        assert_eq!(known(watched), Some(2));
        assert_eq!(known(&watched.replace("=ok", "=sdown")), None);
        assert_eq!(known(""), None);
    }
}
