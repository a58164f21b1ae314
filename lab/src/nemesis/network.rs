//! [`Cut`]: packets between a server and its callers that are dropped.

use idem_core::BoxError;

use super::shell::run;

/// Which packets are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Those of the callers: the server hears nothing more.
    Requests,
    /// Those of the server: it does what it was asked, and its answers are lost.
    Answers,
    /// All.
    Both,
}

/// A cut between a server and its callers, in the network of this process. The
/// connections stay open, and go on when it is [healed](Self::heal).
#[derive(Debug)]
pub(crate) struct Cut {
    rules: Vec<Vec<String>>,
}

impl Cut {
    /// Drops the packets from now on.
    pub(crate) fn install(port: u16, way: Way) -> Result<Self, BoxError> {
        let ends: &[&str] = match way {
            Way::Requests => &["--dport"],
            Way::Answers => &["--sport"],
            Way::Both => &["--dport", "--sport"],
        };
        let mut cut = Self { rules: Vec::new() };
        for end in ends {
            let port = port.to_string();
            let rule = ["OUTPUT", "-o", "lo", "-p", "tcp", end, &port, "-j", "DROP"];
            let rule: Vec<String> = rule.map(str::to_owned).into();
            iptables("-A", &rule)?;
            cut.rules.push(rule);
        }
        Ok(cut)
    }

    /// Lets packets through again. Returns how many were dropped.
    pub(crate) fn heal(self) -> Result<u64, BoxError> {
        let table = run("iptables", &["-w", "-nvxL", "OUTPUT"])?;
        for rule in &self.rules {
            iptables("-D", rule)?;
        }
        Ok(dropped(&table))
    }
}

fn iptables(action: &str, rule: &[String]) -> Result<(), BoxError> {
    let mut arguments = vec!["-w", action];
    arguments.extend(rule.iter().map(String::as_str));
    run("iptables", &arguments).map(drop)
}

/// Returns the sum of the packets in the lines of rules that drop.
fn dropped(table: &str) -> u64 {
    let lines = table.lines().map(|line| line.split_whitespace());
    let counts = lines.filter_map(|mut words| {
        let count = words.next()?.parse::<u64>().ok()?;
        (words.nth(1)? == "DROP").then_some(count)
    });
    counts.sum()
}

#[cfg(test)]
mod tests {
    use super::dropped;

    #[test]
    fn dropped_packets_are_added_up() {
        let table = "Chain OUTPUT (policy ACCEPT 10 packets, 600 bytes)\n\
            \x20   pkts      bytes target     prot opt in     out     source  destination\n\
            \x20      7      420 DROP       tcp  --  *      lo      0.0.0.0/0  0.0.0.0/0\n\
            \x20      2      120 ACCEPT     tcp  --  *      lo      0.0.0.0/0  0.0.0.0/0\n\
            \x20      3      180 DROP       tcp  --  *      lo      0.0.0.0/0  0.0.0.0/0\n";
        assert_eq!(dropped(table), 10);
    }
}
