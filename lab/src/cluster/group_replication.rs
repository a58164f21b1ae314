//! MySQL Group Replication: three members, of which one takes writes.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use idem_core::BoxError;
use idem_mysql::{Config, MySqlStore};
use idem_servers::{Instance, Options, start_private};

use super::group::{Group, Store};
use super::router::address_of;
use super::scene::eventually;
use super::semi_sync::{run, scalar};

/// How long a caller waits for an answer: a lost member is expelled after five seconds or more.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The members.
const MEMBERS: usize = 3;

/// Three members under callers.
pub(crate) struct Members {
    members: Vec<Instance>,
    /// The number of the one that takes writes.
    primary: usize,
    /// The number of the one that was lost.
    lost: Option<usize>,
}

impl Members {
    /// Starts them, with the store's tables.
    pub(crate) async fn start() -> Result<Self, BoxError> {
        let ports = (0..MEMBERS).map(|_| free_port());
        let ports: Vec<u16> = ports.collect::<Result<_, _>>()?;
        let mut members = Vec::new();
        for number in 0..MEMBERS {
            members.push(start_private("mysql", &options(number, &ports))?);
        }
        for (number, member) in members.iter().enumerate() {
            let url = member.url();
            run(url, RECOVERY).await?;
            if number == 0 {
                run(url, "SET GLOBAL group_replication_bootstrap_group = ON").await?;
            }
            run(url, "START GROUP_REPLICATION").await?;
            run(url, "SET GLOBAL group_replication_bootstrap_group = OFF").await?;
        }
        let group = Self {
            members,
            primary: 0,
            lost: None,
        };
        group.wait_for_size(MEMBERS).await?;
        let store = MySqlStore::connect(group.leader(), Config::new()).await?;
        store.migrate().await?;
        Ok(group)
    }

    /// Waits until the primary sees so many members.
    async fn wait_for_size(&self, size: usize) -> Result<(), BoxError> {
        eventually("the group has this size", || async {
            let online: i64 = scalar(self.leader(), ONLINE).await?;
            Ok(usize::try_from(online)? == size)
        })
        .await
    }
}

const RECOVERY: &str = "CHANGE REPLICATION SOURCE TO SOURCE_USER = 'idem', SOURCE_PASSWORD = 'idem' \
    FOR CHANNEL 'group_replication_recovery'";

const ONLINE: &str = "SELECT COUNT(*) FROM performance_schema.replication_group_members \
    WHERE member_state = 'ONLINE'";

const PRIMARY: &str = "SELECT COALESCE(MAX(member_port), 0) FROM \
    performance_schema.replication_group_members \
    WHERE member_state = 'ONLINE' AND member_role = 'PRIMARY'";

/// Returns how to start the member of this number.
fn options(number: usize, ports: &[u16]) -> Options {
    let seeds: Vec<_> = ports
        .iter()
        .map(|port| format!("127.0.0.1:{port}"))
        .collect();
    Options::new()
        .with_setting("plugin-load-add", "group_replication.so")
        .with_setting("server-id", (number + 1).to_string())
        .with_setting("log-bin", "binlog")
        .with_setting("gtid-mode", "ON")
        .with_setting("enforce-gtid-consistency", "ON")
        .with_setting("performance-schema", "ON")
        .with_setting("report-host", "127.0.0.1")
        .with_setting(
            "group-replication-group-name",
            "5c6f3a0e-6d7b-4f1c-9a52-1f0a5b6c7d8e",
        )
        .with_setting("group-replication-local-address", &*seeds[number])
        .with_setting("group-replication-group-seeds", seeds.join(","))
        .with_setting("group-replication-start-on-boot", "OFF")
        .with_setting("group-replication-consistency", "AFTER")
        .with_setting("group-replication-recovery-get-public-key", "ON")
        .with_setting("group-replication-member-expel-timeout", "0")
}

/// Returns a port that nobody has now.
fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

#[async_trait]
impl Group for Members {
    fn product(&self) -> String {
        self.members[0].product().to_string()
    }

    fn settings(&self) -> String {
        "Group Replication, three members, one primary, group_replication_consistency=AFTER"
            .to_owned()
    }

    fn leader(&self) -> &str {
        self.members[self.primary].url()
    }

    fn is_routed(&self) -> bool {
        true
    }

    async fn store(&self, url: &str) -> Result<Store, BoxError> {
        let config = Config::new().with_timeout(TIMEOUT);
        Ok(Arc::new(MySqlStore::connect(url, config).await?))
    }

    async fn reader(&self, url: &str) -> Result<Store, BoxError> {
        self.store(url).await
    }

    async fn cut(&mut self) -> Result<(), BoxError> {
        Err("no member lacks what the group acknowledged".into())
    }

    async fn wait_for_waiting(&self) -> Result<(), BoxError> {
        Err("no cell lets commits wait for a member".into())
    }

    async fn show_waiting(&mut self) -> Result<usize, BoxError> {
        Err("no cell lets commits wait for a member".into())
    }

    async fn fail_over(&mut self) -> Result<String, BoxError> {
        let lost = self.primary;
        self.members[lost].kill()?;
        let any = self.members[(lost + 1) % MEMBERS].url();
        let ports: Vec<_> = (self.members.iter())
            .map(|member| address_of(member.url()).map(|address| i64::from(address.port())))
            .collect::<Result<_, _>>()?;
        eventually("another member is the primary", || async {
            let port: i64 = scalar(any, PRIMARY).await?;
            Ok(port != 0 && port != ports[lost])
        })
        .await?;
        let port: i64 = scalar(any, PRIMARY).await?;
        let elected = ports.iter().position(|own| *own == port);
        self.primary = elected.ok_or("the primary is a member")?;
        self.lost = Some(lost);
        let [lost, used] = [lost, self.primary].map(|number| self.members[number].url());
        Ok(format!("{lost} was killed and expelled, {used} leads"))
    }

    async fn add_replica(&mut self) -> Result<(), BoxError> {
        if let Some(lost) = self.lost.take() {
            self.members[lost].restart()?;
            run(self.members[lost].url(), "START GROUP_REPLICATION").await?;
        }
        self.wait_for_size(MEMBERS).await
    }
}
