//! [`Ledger`]: what stands for the service that the work calls.

use idem_core::BoxError;
use idem_redis::redis::{Script, cmd};

use super::server::Server;
use crate::storm::entry::Entry;

/// Entries of a page.
const PAGE: u32 = 1_000;

/// A service with effects of its own, that honours an idempotency key as payment providers do, and
/// a fencing token beside it.
///
/// It is in the same Redis for want of another, and shares no transaction with the records: a call
/// to it happens, or not, whatever becomes of the claim. A stream holds the effects in their order,
/// a hash under which key each was asked for; their names share a hash tag, so a cluster has both
/// on one node.
#[derive(Debug)]
pub(super) struct Ledger {
    script: Script,
    stream: String,
    effects: String,
}

impl Ledger {
    pub(super) fn new(namespace: &str) -> Self {
        Self {
            script: Script::new(include_str!("ledger.lua")),
            stream: format!("{{{namespace}}}:ledger"),
            effects: format!("{{{namespace}}}:effects"),
        }
    }

    /// Asks for the effect under a key; the answer is the one effect that this key ever has, of
    /// this caller or of an earlier one. `None` for a caller who comes after one with a greater
    /// token.
    pub(super) async fn ask(
        &self,
        server: &Server,
        key: &str,
        entry: &Entry,
    ) -> Result<Option<Entry>, BoxError> {
        let mut call = self.script.key(&self.effects);
        call.key(&self.stream)
            .arg(key)
            .arg(entry.token)
            .arg(entry.receipt());
        let written: Option<Vec<u8>> = server.run(&call).await?;
        let written = written.map(|written| serde_json::from_slice(&written));
        Ok(written.transpose()?)
    }

    /// Asks without a key: the effect happens as often as it is asked for.
    pub(super) async fn append(&self, server: &Server, entry: &Entry) -> Result<(), BoxError> {
        let mut add = cmd("XADD");
        add.arg(&self.stream)
            .arg("*")
            .arg("entry")
            .arg(entry.receipt());
        server.ask(&add).await
    }

    /// All of it, page by page.
    pub(super) async fn read(&self, server: &Server) -> Result<Vec<Entry>, BoxError> {
        let mut entries = Vec::new();
        let mut from = "-".to_owned();
        loop {
            let mut range = cmd("XRANGE");
            range.arg(&self.stream).arg(&from).arg("+");
            range.arg("COUNT").arg(PAGE);
            let page: Vec<(String, (String, Vec<u8>))> = server.ask(&range).await?;
            let Some((last, _)) = page.last() else {
                return Ok(entries);
            };
            from = format!("({last}");
            for (_, (_, entry)) in &page {
                entries.push(serde_json::from_slice(entry)?);
            }
        }
    }

    pub(super) async fn remove(&self, server: &Server) -> Result<(), BoxError> {
        let mut unlink = cmd("UNLINK");
        unlink.arg(&self.stream).arg(&self.effects);
        server.ask(&unlink).await
    }
}
