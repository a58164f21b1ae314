/// What one node thinks of all nodes: its answer to `CLUSTER NODES`.
/// <https://redis.io/docs/latest/commands/cluster-nodes/>
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Map {
    members: Vec<Member>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Member {
    id: String,
    port: u16,
    flags: Vec<String>,
    master: String,
    has_slots: bool,
}

impl Map {
    pub(crate) fn read(text: &str) -> Self {
        Self {
            members: text.lines().filter_map(Member::read).collect(),
        }
    }

    /// How many nodes it takes for alive, itself among them.
    pub(crate) fn alive(&self) -> usize {
        self.members.iter().filter(|node| node.is_alive()).count()
    }

    /// Whether the node at that port is a master of keys, for which one of these ports' nodes is to take over.
    pub(crate) fn has_heir(&self, port: u16, running: &[u16]) -> bool {
        let Some(node) = self.at(port).filter(|node| node.has_slots) else {
            return false;
        };
        let mut heirs = self.members.iter();
        heirs.any(|heir| heir.master == node.id && running.contains(&heir.port))
    }

    fn at(&self, port: u16) -> Option<&Member> {
        self.members.iter().find(|node| node.port == port)
    }
}

impl Member {
    /// `id 127.0.0.1:7000@17000 myself,master - 0 0 1 connected 0-5460`, where `-` is no master.
    fn read(line: &str) -> Option<Self> {
        let words: Vec<_> = line.split(' ').collect();
        let [id, address, flags, master, _, _, _, _, slots @ ..] = words.as_slice() else {
            return None;
        };
        let (_, port) = address.split('@').next()?.rsplit_once(':')?;
        Some(Self {
            id: (*id).into(),
            port: port.parse().ok()?,
            flags: flags.split(',').map(Into::into).collect(),
            master: (*master).into(),
            has_slots: !slots.is_empty(),
        })
    }

    fn is_alive(&self) -> bool {
        let gone = ["fail", "fail?", "handshake", "noaddr"];
        !self.flags.iter().any(|flag| gone.contains(&flag.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::Map;

    const TEXT: &str = "\
aa 127.0.0.1:7000@17000 myself,master - 0 0 1 connected 0-5460
bb 127.0.0.1:7001@17001,host master,fail - 0 0 2 disconnected 5461-10922
cc 127.0.0.1:7002@17002 slave bb 0 0 2 connected
dd 127.0.0.1:7003@17003 slave,fail? aa 0 0 1 connected
";

    #[test]
    fn only_nodes_that_are_not_suspected_are_alive() {
        assert_eq!(Map::read(TEXT).alive(), 2);
        assert_eq!(Map::read("").alive(), 0);
    }

    #[test]
    fn a_master_has_an_heir_while_its_replica_runs() {
        let map = Map::read(TEXT);
        assert!(map.has_heir(7001, &[7000, 7002]));
        assert!(!map.has_heir(7001, &[7000, 7003]));
        assert!(!map.has_heir(7002, &[7000, 7001]));
    }
}
