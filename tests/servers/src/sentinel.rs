use std::path::PathBuf;
use std::process::Command;

use crate::redis::{Connection, PORT, account, probe, program, programs, url};
use crate::url::Url;
use crate::{Error, Product, Result, Server, Site, Transport, root};

const CONFIGURATION: &str = "sentinel.conf";

/// One Redis Sentinel that decides alone: it watches the master at
/// [`Options::with_upstream`](crate::Options::with_upstream) under the name [`MASTER`](Self::MASTER) and hands over
/// to a replica when the master has not answered for two seconds, or as the setting `down-after-milliseconds` says: it
/// pings once a second at most, so that a shorter time takes a living master for a dead one. Settings are Sentinel's, about that master.
///
/// For tests only, which start it with [`start_private`](crate::start_private) once the replicas follow their
/// master: it counts as started when it knows all of them. One that is added later it finds within ten seconds.
#[derive(Clone, Copy, Debug)]
pub struct RedisSentinel;

impl RedisSentinel {
    /// The name of the master that it watches.
    pub const MASTER: &'static str = "idem";
}

impl Server for RedisSentinel {
    fn name(&self) -> &'static str {
        "redis-sentinel"
    }

    fn product(&self) -> &'static str {
        "Redis Sentinel"
    }

    /// The server is its own sentinel.
    fn packages(&self) -> &'static [&'static str] {
        &["redis-server"]
    }

    fn account(&self) -> &'static str {
        account("redis")
    }

    fn programs(&self) -> Option<PathBuf> {
        programs()
    }

    fn upstream(&self) -> Option<&'static str> {
        Some("redis")
    }

    fn takes_settings(&self) -> bool {
        true
    }

    /// Its configuration is its memory too: it writes down whom it made the master.
    fn prepare(&self, site: &Site<'_>) -> Result<()> {
        if site.options().transport() == Transport::Tls {
            return Err(Error::setting("a sentinel is started without TLS only"));
        }
        let master = Url::parse(upstream(site)?, PORT)?;
        let text = configuration(&master, site.port(), site.options().settings());
        site.write(CONFIGURATION, &text).map(drop)
    }

    fn command(&self, site: &Site<'_>) -> Command {
        let mut command = root::command(site, program(site.programs()));
        command.arg(site.path(CONFIGURATION)).arg("--sentinel");
        command
    }

    fn url(&self, port: u16) -> String {
        url(port)
    }

    fn probe(&self, url: &str) -> Result<Product> {
        let Product { name, version } = probe(url, self.product())?;
        let name = if name == self.product() {
            name
        } else {
            format!("{name} Sentinel")
        };
        Ok(Product { name, version })
    }

    /// At first the master that it was told has to answer, with as many replicas as it has. After a restart it may
    /// have found another, and a dead one beside it.
    fn is_ready(&self, site: &Site<'_>) -> Result<()> {
        let mut sentinel = Connection::open(&self.url(site.port()))?;
        let watched = sentinel.info("sentinel", "master0")?.unwrap_or_default();
        let master = Connection::open(upstream(site)?);
        let wanted =
            match master.and_then(|mut master| master.info("replication", "connected_slaves")) {
                Ok(count) => count.unwrap_or_default(),
                Err(_) => "0".into(),
            };
        if known(&watched) >= wanted.parse().ok() {
            Ok(())
        } else {
            Err(Error::failed(format!(
                "{wanted} replicas are to be watched: {watched}"
            )))
        }
    }
}

fn upstream<'a>(site: &'a Site<'_>) -> Result<&'a str> {
    let upstream = site.options().upstream();
    upstream.ok_or_else(|| Error::setting("redis-sentinel needs the URL of a redis"))
}

fn configuration(master: &Url, port: u16, settings: &[(String, String)]) -> String {
    let name = RedisSentinel::MASTER;
    let password = master.password.iter();
    let password = password.map(|password| ("auth-pass", password.as_str()));
    let usual = [
        ("down-after-milliseconds", "2000"),
        ("failover-timeout", "3000"),
    ];
    let settings = settings
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    let lines: String = usual
        .into_iter()
        .chain(password)
        .chain(settings)
        .map(|(setting, value)| format!("sentinel {setting} {name} {value}\n"))
        .collect();
    format!(
        "port {port}\n\
         bind 127.0.0.1\n\
         protected-mode no\n\
         sentinel monitor {name} {host} {master} 1\n\
         {lines}",
        host = master.host,
        master = master.port,
    )
}

/// How many replicas of a master that is up it knows: `name=idem,status=ok,address=…,slaves=1,sentinels=1`.
fn known(watched: &str) -> Option<u32> {
    let mut fields = watched.split(',').filter_map(|field| field.split_once('='));
    let is_up = fields.any(|field| field == ("status", "ok"));
    let (_, count) = fields.find(|(name, _)| *name == "slaves")?;
    count.parse().ok().filter(|_| is_up)
}

#[cfg(test)]
mod tests {
    use super::{configuration, known};
    use crate::url::Url;

    #[test]
    fn the_master_is_named_with_its_address_and_settings() {
        let master = Url::parse("redis://127.0.0.1:7001", 6379).unwrap();
        let settings = [("failover-timeout".to_owned(), "9000".to_owned())];
        let text = configuration(&master, 7002, &settings);
        assert!(text.starts_with("port 7002\n"), "{text}");
        assert!(
            text.contains("sentinel monitor idem 127.0.0.1 7001 1\n"),
            "{text}"
        );
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
