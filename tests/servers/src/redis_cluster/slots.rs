use std::time::Instant;

use super::map::Map;
use crate::cluster::{Group, PAUSE, TIME_TO_SETTLE, wait_for_size};
use crate::local::Local;
use crate::redis::{Connection, field};
use crate::{Error, Product, Result};

const COUNT: usize = 16_384;

/// Nodes that share the slots of the keys: the first half as masters, the second half as their replicas.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slots;

impl Group for Slots {
    fn begin(&self, nodes: &mut [Local]) -> Result<Product> {
        let mut product = None;
        for local in nodes.iter_mut() {
            product = Some(local.begin()?);
        }
        introduce(nodes)?;
        hand_out(nodes)?;
        eventually(|| follow(nodes))?;
        wait_for_size(self, nodes, nodes.len())?;
        product.ok_or_else(|| Error::setting("a cluster has nodes"))
    }

    /// A master that came back before it is out would still be one, with the data that it has on disk, and its replica
    /// would follow it into that.
    fn restart(&self, nodes: &mut [Local], node: usize) -> Result<()> {
        nodes[node].stop()?;
        let port = nodes[node].port();
        let running: Vec<_> = nodes.iter().filter(|local| local.is_running()).collect();
        let ports: Vec<_> = running.iter().map(|local| local.port()).collect();
        if let Some(witness) = running.first() {
            eventually(|| match map(witness)?.has_heir(port, &ports) {
                true => Err(Error::failed("its replica does not take over")),
                false => Ok(()),
            })?;
        }
        let size = running.len() + 1;
        nodes[node].restart()?;
        wait_for_size(self, nodes, size)
    }

    fn restart_all(&self, nodes: &mut [Local]) -> Result<()> {
        for node in 0..nodes.len() {
            let settles = nodes.iter().filter(|local| local.is_running()).count() > nodes.len() / 2;
            match (nodes[node].is_running(), settles) {
                (true, _) => {}
                (false, true) => self.restart(nodes, node)?,
                // Too few for a vote on who takes over.
                (false, false) => nodes[node].restart()?,
            }
        }
        wait_for_size(self, nodes, nodes.len())
    }

    fn check(&self, running: &[&Local], size: usize) -> Result<()> {
        for local in running {
            let mut node = connect(local)?;
            let state = node.ask(&["CLUSTER", "INFO"])?;
            if field(&state, "cluster_state") != Some("ok") {
                return Err(Error::failed(format!("{} is not served", local.url())));
            }
            let alive = Map::read(&node.ask(&["CLUSTER", "NODES"])?).alive();
            if alive != size {
                return Err(Error::failed(format!("{} sees {alive}", local.url())));
            }
            let told = node.ask(&["INFO", "replication"])?;
            if !matches!(field(&told, "master_link_status"), None | Some("up")) {
                return Err(Error::failed(format!("{} lacks data", local.url())));
            }
        }
        Ok(())
    }
}

/// Each node has a rank of its own before it knows the others, so that they do not have to find out theirs.
fn introduce(nodes: &[Local]) -> Result<()> {
    for (number, local) in nodes.iter().enumerate() {
        let rank = (number + 1).to_string();
        connect(local)?.ask(&["CLUSTER", "SET-CONFIG-EPOCH", &rank])?;
    }
    let (first, others) = nodes
        .split_first()
        .ok_or_else(|| Error::setting("a cluster has nodes"))?;
    let mut first = connect(first)?;
    for local in others {
        let port = local.port().to_string();
        let bus = local.site().second_port().unwrap_or_default().to_string();
        first.ask(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus])?;
    }
    Ok(())
}

/// Equal parts of the slots to the masters.
fn hand_out(nodes: &[Local]) -> Result<()> {
    let masters = &nodes[..nodes.len() / 2];
    for (number, local) in masters.iter().enumerate() {
        let from = COUNT * number / masters.len();
        let to = COUNT * (number + 1) / masters.len() - 1;
        let [from, to] = [from, to].map(|slot| slot.to_string());
        connect(local)?.ask(&["CLUSTER", "ADDSLOTSRANGE", &from, &to])?;
    }
    Ok(())
}

/// Tells the replicas their masters; fails until each knows its own.
fn follow(nodes: &[Local]) -> Result<()> {
    let (masters, replicas) = nodes.split_at(nodes.len() / 2);
    for (master, replica) in masters.iter().zip(replicas) {
        if map(replica)?.alive() != nodes.len() {
            return Err(Error::failed("the nodes do not know each other"));
        }
        let id = connect(master)?.ask(&["CLUSTER", "MYID"])?;
        connect(replica)?.ask(&["CLUSTER", "REPLICATE", &id])?;
    }
    Ok(())
}

fn connect(local: &Local) -> Result<Connection> {
    Connection::open(&local.url())
}

fn map(local: &Local) -> Result<Map> {
    let text = connect(local)?.ask(&["CLUSTER", "NODES"])?;
    Ok(Map::read(&text))
}

fn eventually(mut done: impl FnMut() -> Result<()>) -> Result<()> {
    let deadline = Instant::now() + TIME_TO_SETTLE;
    loop {
        match done() {
            Err(_) if Instant::now() < deadline => std::thread::sleep(PAUSE),
            done => return done,
        }
    }
}
