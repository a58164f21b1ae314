use crate::Result;
use crate::port::Reservation;

/// What a server has to know to be one node of a cluster.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) number: usize,
    /// Addresses of all nodes, itself among them.
    pub(crate) peers: String,
    pub(crate) start: Start,
    /// How far its data goes, where it has any.
    pub(crate) position: Option<String>,
    ports: [Reservation; 3],
}

/// How a node starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// As the first of a cluster, with the data that it has.
    Anew,
    /// By joining the nodes that run; it gets from one of them what it lacks.
    Join,
}

impl Node {
    /// The nodes of one cluster; the first starts it.
    pub(crate) fn group_of(count: usize) -> Result<Vec<Self>> {
        let reserve = || {
            Ok([
                Reservation::new()?,
                Reservation::new()?,
                Reservation::new()?,
            ])
        };
        let ports: Result<Vec<_>> = (0..count).map(|_| reserve()).collect();
        let ports = ports?;
        let addresses = ports
            .iter()
            .map(|[group, ..]| format!("127.0.0.1:{}", group.port()));
        let peers = addresses.collect::<Vec<_>>().join(",");
        let node = |(number, ports)| Self {
            number,
            peers: peers.clone(),
            start: if number == 0 {
                Start::Anew
            } else {
                Start::Join
            },
            position: None,
            ports,
        };
        Ok(ports.into_iter().enumerate().map(node).collect())
    }

    /// Port for the talk of the group.
    pub(crate) fn group(&self) -> u16 {
        self.ports[0].port()
    }

    /// Port for the writes that it missed.
    pub(crate) fn state(&self) -> u16 {
        self.ports[1].port()
    }

    /// Port for a copy of all data.
    pub(crate) fn snapshot(&self) -> u16 {
        self.ports[2].port()
    }
}

#[cfg(test)]
mod tests {
    use super::{Node, Start};

    #[test]
    fn the_first_node_starts_the_cluster_and_the_others_join() {
        let nodes = Node::group_of(3).unwrap();
        let starts: Vec<_> = nodes.iter().map(|node| node.start).collect();
        assert_eq!(starts, [Start::Anew, Start::Join, Start::Join]);
        assert_eq!(nodes[0].peers.split(',').count(), 3);
    }
}
