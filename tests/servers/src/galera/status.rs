use crate::mariadb::tool;
use crate::site::said_by;
use crate::{Result, Site};

const QUESTION: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN \
    ('wsrep_ready', 'wsrep_local_state_comment', 'wsrep_cluster_status', 'wsrep_cluster_size')";

/// What a node says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Status {
    ready: String,
    state: String,
    cluster: String,
    /// How many nodes it is with, itself among them.
    pub(crate) size: usize,
}

impl Status {
    /// Asks the node through its socket, as `root`, with the client program: its log-in is not ours to write.
    pub(crate) fn ask(site: &Site<'_>) -> Result<Self> {
        let mut client = site.command(tool(site.programs(), "mariadb"));
        client.args([
            "--no-defaults",
            "--connect-timeout=5",
            "--user=root",
            "--socket",
        ]);
        client.arg(site.path("s"));
        client.args(["--batch", "--skip-column-names", "--execute", QUESTION]);
        said_by(&mut client).map(|text| Self::read(&text))
    }

    fn read(text: &str) -> Self {
        let mut status = Self::default();
        for (name, value) in text.lines().filter_map(|line| line.split_once('\t')) {
            match name {
                "wsrep_ready" => status.ready = value.into(),
                "wsrep_local_state_comment" => status.state = value.into(),
                "wsrep_cluster_status" => status.cluster = value.into(),
                "wsrep_cluster_size" => status.size = value.parse().unwrap_or_default(),
                _ => {}
            }
        }
        status
    }

    /// Whether it takes reads and writes and has all of the cluster's data.
    pub(crate) fn is_synced(&self) -> bool {
        self.ready == "ON" && self.state == "Synced" && self.is_primary()
    }

    /// Whether it is among the majority.
    pub(crate) fn is_primary(&self) -> bool {
        self.cluster == "Primary"
    }
}

#[cfg(test)]
mod tests {
    use super::Status;

    #[test]
    fn a_node_is_synced_when_it_is_ready_in_the_majority() {
        let text = "wsrep_local_state_comment\tSynced\nwsrep_cluster_size\t3\n\
            wsrep_cluster_status\tPrimary\nwsrep_ready\tON\n";
        let status = Status::read(text);
        assert!(status.is_synced() && status.size == 3, "{status:?}");
        assert!(!Status::read(&text.replace("Primary", "non-Primary")).is_synced());
        assert!(!Status::read(&text.replace("Synced", "Donor/Desynced")).is_synced());
        assert!(!Status::read("").is_synced());
    }
}
