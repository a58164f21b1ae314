//! [`Info`]: what a server reports about itself, and whether claims are safe with it.

use idem_core::{Effect, Error, ErrorKind, Result};

use crate::config::Eviction;

/// The first version with `SET … PXAT`.
const OLDEST: (u32, u32) = (6, 2);

/// The answer to `INFO`: <https://redis.io/docs/latest/commands/info/>.
#[derive(Debug)]
pub(crate) struct Info<'i>(&'i str);

impl<'i> Info<'i> {
    pub(crate) fn new(text: &'i str) -> Self {
        Self(text)
    }

    fn field(&self, name: &str) -> Option<&'i str> {
        let mut lines = self.0.lines();
        lines
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(str::trim)
    }

    /// Returns the random name that the server has until it ends.
    pub(crate) fn run_id(&self) -> &'i str {
        self.field("run_id").unwrap_or_default()
    }

    /// Checks that claims are safe on the server. Missing fields do not count against it: services
    /// that hide a field manage it themselves.
    ///
    /// # Errors
    ///
    /// `Misconfigured` with the setting to change; `Unavailable` for a replica, because after a
    /// failover the same address may lead again.
    pub(crate) fn check(&self, eviction: Eviction) -> Result<()> {
        self.check_version()?;
        self.check_role()?;
        match eviction {
            Eviction::Refuse => self.check_eviction(),
            Eviction::Accept => Ok(()),
        }
    }

    /// Refuses a server whose last attempts to save failed; a server without such settings passes.
    pub(crate) fn check_saving(&self, node: Option<&str>) -> Result<()> {
        for (field, setting) in [
            ("rdb_last_bgsave_status", "save"),
            ("aof_last_bgrewrite_status", "appendonly"),
            ("aof_last_write_status", "appendonly"),
        ] {
            if self.field(field).is_some_and(|status| status != "ok") {
                return Err(misconfigured(format!(
                    "the server{}{} could not write to its disk (`{field}` of INFO), so a restart loses records; see its \
                     log, and the setting `{setting}`",
                    if node.is_some() { " " } else { "" },
                    node.unwrap_or_default(),
                )));
            }
        }
        Ok(())
    }

    fn check_version(&self) -> Result<()> {
        let Some(version) = self.field("redis_version") else {
            return Ok(());
        };
        let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(0));
        let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        if found >= OLDEST {
            return Ok(());
        }
        Err(misconfigured(format!(
            "the server is Redis {version}; version {}.{} or later is needed (`SET … PXAT`)",
            OLDEST.0, OLDEST.1
        )))
    }

    fn check_role(&self) -> Result<()> {
        match self.field("role") {
            Some("slave" | "replica") => Err(Error::new(
                ErrorKind::Unavailable,
                Effect::None,
                "the server is a replica, on which nothing can be claimed; connect to the master, through \
                 Sentinel (`connect_sentinel`), or to the cluster (`connect_cluster`)",
            )),
            _ => Ok(()),
        }
    }

    fn check_eviction(&self) -> Result<()> {
        let limited = self.field("maxmemory").is_some_and(|bytes| bytes != "0");
        match self.field("maxmemory_policy") {
            Some(policy) if limited && policy != "noeviction" => Err(misconfigured(format!(
                "the server drops keys when memory is short (maxmemory-policy {policy}), claims and results \
                 among them: `CONFIG SET maxmemory-policy noeviction`, or accept it with \
                 `Config::with_eviction(Eviction::Accept)`"
            ))),
            _ => Ok(()),
        }
    }
}

fn misconfigured(message: String) -> Error {
    Error::new(ErrorKind::Misconfigured, Effect::None, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<()> {
        Info::new(text).check(Eviction::Refuse)
    }

    #[test]
    fn a_server_that_keeps_claims_is_taken() {
        let good = "# Server\r\nredis_version:7.0.15\r\nmaxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\nrole:master\r\n";
        assert!(check(good).is_ok());
        assert!(
            check("redis_version:6.2.0\r\nmaxmemory:9\r\nmaxmemory_policy:noeviction\r\n").is_ok()
        );
        assert!(check("").is_ok());
    }

    #[test]
    fn a_server_that_cannot_save_is_refused() {
        let info = |text: &str| Info::new(text).check_saving(Some("10.0.0.1:6379"));
        assert!(info("rdb_last_bgsave_status:ok\r\naof_last_write_status:ok\r\n").is_ok());
        assert!(info("").is_ok());
        let error = info("rdb_last_bgsave_status:ok\r\naof_last_write_status:err\r\n").unwrap_err();
        assert!(error.to_string().contains("10.0.0.1:6379"), "{error}");
        assert!(error.to_string().contains("appendonly"), "{error}");
    }

    #[test]
    fn each_problem_names_the_setting_to_change() {
        let evicts = "redis_version:7.2.4\r\nmaxmemory:1048576\r\nmaxmemory_policy:volatile-ttl\r\nrole:master\r\n";
        let cases = [
            ("redis_version:6.0.16\r\n", "6.2 or later"),
            ("redis_version:3.0\r\n", "6.2 or later"),
            ("role:slave\r\n", "connect_sentinel"),
            (evicts, "CONFIG SET maxmemory-policy noeviction"),
        ];
        for (text, advice) in cases {
            let error = check(text).unwrap_err();
            assert!(error.to_string().contains(advice), "{error}");
            assert_eq!(error.effect(), Effect::None);
        }
        assert!(Info::new(evicts).check(Eviction::Accept).is_ok());
    }
}
