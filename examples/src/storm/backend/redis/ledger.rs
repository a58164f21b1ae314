//! [`Ledger`]: stands for the service that the work calls.

use idem_core::BoxError;
use idem_redis::redis::{Script, cmd};

use super::server::Server;
use crate::storm::entry::Entry;

/// Entries of a page.
const PAGE: u32 = 1_000;

/// A service with its own effects, which accepts an idempotency key as payment providers do, and a
/// fencing token beside it.
///
/// It uses the same Redis for lack of another server, and shares no transaction with the records: a
/// call happens, or not, whatever becomes of the claim. A stream holds the effects in order, a hash
/// the key of each; their names share a hash tag, so a cluster has both on one node.
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

    /// Requests the effect under a key. Returns the one effect that this key ever has, of this
    /// caller or of an earlier one. Returns `None` for a caller that comes after one with a greater
    /// token.
    pub(super) async fn request(
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

    /// Requests the effect without a key: it happens at every call.
    pub(super) async fn append(&self, server: &Server, entry: &Entry) -> Result<(), BoxError> {
        let mut add = cmd("XADD");
        add.arg(&self.stream)
            .arg("*")
            .arg("entry")
            .arg(entry.receipt());
        server.query(&add).await
    }

    /// Reads the whole ledger, page by page.
    pub(super) async fn read(&self, server: &Server) -> Result<Vec<Entry>, BoxError> {
        let mut entries = Vec::new();
        let mut from = "-".to_owned();
        loop {
            let mut range = cmd("XRANGE");
            range.arg(&self.stream).arg(&from).arg("+");
            range.arg("COUNT").arg(PAGE);
            let page: Vec<(String, (String, Vec<u8>))> = server.query(&range).await?;
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
        server.query(&unlink).await
    }
}
