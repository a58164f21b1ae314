use crate::Result;
use crate::port::Reservation;

/// One node of a Galera cluster.
#[derive(Debug)]
pub(crate) struct Node {
    /// Addresses of all nodes, including itself.
    pub(crate) peers: String,
    /// Whether it starts the cluster, with its own data. The others join the running nodes and get
    /// missing data from one of them.
    pub(crate) is_first: bool,
    /// The position of its latest data, if it has any.
    pub(crate) position: Option<String>,
    /// For group communication, for missed writes, and for a copy of all data.
    pub(crate) ports: [Reservation; 3],
}

impl Node {
    /// Creates the nodes of one cluster; the first starts it.
    pub(crate) fn group_of(count: usize) -> Result<Vec<Self>> {
        let mut nodes = Vec::new();
        for number in 0..count {
            nodes.push(Self {
                peers: String::new(),
                is_first: number == 0,
                position: None,
                ports: [
                    Reservation::new()?,
                    Reservation::new()?,
                    Reservation::new()?,
                ],
            });
        }
        let address = |node: &Self| format!("127.0.0.1:{}", node.ports[0].port());
        let peers: Vec<_> = nodes.iter().map(address).collect();
        for node in &mut nodes {
            node.peers = peers.join(",");
        }
        Ok(nodes)
    }
}
