use std::time::Instant;

use super::position::Position;
use super::status::Status;
use super::{Node, Start};
use crate::cluster::{Group, PAUSE, TIME_TO_SETTLE};
use crate::local::Local;
use crate::{Error, Product, Result};

/// Nodes that are a cluster as long as most of them see each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Majority;

impl Group for Majority {
    /// One after the other: of two that join at once one waits for longer than the other takes.
    fn begin(&self, nodes: &mut [Local]) -> Result<Product> {
        let places = Node::group_of(nodes.len())?;
        let mut product = None;
        for (local, node) in nodes.iter_mut().zip(places) {
            local.set_node(node);
            product = Some(local.begin()?);
        }
        product.ok_or_else(|| Error::setting("a cluster has nodes"))
    }

    fn restart(&self, nodes: &mut [Local], node: usize) -> Result<()> {
        nodes[node].stop()?;
        if !goes_on(nodes)? {
            return Err(Error::failed(
                "a node cannot join: the others are no cluster; `restart_all` starts it anew",
            ));
        }
        let local = &mut nodes[node];
        let position = local.position()?;
        local.join_at(&position);
        local.restart()
    }

    fn restart_all(&self, nodes: &mut [Local]) -> Result<()> {
        if !goes_on(nodes)? {
            nodes.iter_mut().try_for_each(Local::stop)?;
            start_anew(nodes)?;
        }
        let stopped = |nodes: &[Local]| nodes.iter().position(|local| !local.is_running());
        while let Some(node) = stopped(nodes) {
            self.restart(nodes, node)?;
        }
        Ok(())
    }

    fn check(&self, running: &[&Local], size: usize) -> Result<()> {
        for local in running {
            let status = Status::ask(&local.site())?;
            if !status.is_synced() || status.size != size {
                return Err(Error::failed(format!("{} is {status:?}", local.url())));
            }
        }
        Ok(())
    }
}

/// Whether the nodes that run are a cluster, once they have noticed who is gone: a killed node has to be out before
/// it can come back.
fn goes_on(nodes: &[Local]) -> Result<bool> {
    let running: Vec<_> = nodes.iter().filter(|node| node.is_running()).collect();
    let deadline = Instant::now() + TIME_TO_SETTLE;
    while Instant::now() < deadline {
        let said: Result<Vec<_>> = running
            .iter()
            .map(|local| Status::ask(&local.site()))
            .collect();
        let said = said?;
        if said.iter().all(|status| !status.is_primary()) {
            return Ok(false);
        }
        let settled = |status: &Status| status.is_synced() && status.size == running.len();
        if said.iter().all(settled) {
            return Ok(true);
        }
        std::thread::sleep(PAUSE);
    }
    Err(Error::failed("the nodes do not agree on who is there"))
}

fn start_anew(nodes: &mut [Local]) -> Result<()> {
    let positions: Result<Vec<_>> = nodes.iter().map(Local::position).collect();
    let positions = positions?;
    let furthest = positions.iter().map(|position| position.write).max();
    let first = positions
        .iter()
        .position(|position| Some(position.write) == furthest)
        .unwrap_or(0);
    for local in nodes.iter() {
        Position::allow_start(&local.site())?;
    }
    let local = &mut nodes[first];
    local.start_at(&positions[first]);
    local.restart()
}

impl Local {
    fn position(&self) -> Result<Position> {
        Position::recover(&self.site())
    }

    fn join_at(&mut self, position: &Position) {
        self.set_start(Start::Join, &position.text);
    }

    fn start_at(&mut self, position: &Position) {
        self.set_start(Start::Anew, &position.text);
    }

    fn set_start(&mut self, start: Start, position: &str) {
        if let Some(node) = self.node_mut() {
            node.start = start;
            node.position = Some(position.into());
        }
    }
}
