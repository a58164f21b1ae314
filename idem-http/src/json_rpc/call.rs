//! [`Call`]: one call in its envelope.

use idem_core::json::RawJson;
use serde_json::Value;

use crate::KeyError;

/// The method of MCP whose calls have the name of a tool.
const TOOLS: &str = "tools/call";

/// A call in a JSON-RPC 2.0 envelope that expects an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    id: Value,
    method: String,
    tool: Option<String>,
}

impl Call {
    /// Reads a call; `None` for notifications, answers, and what is not JSON-RPC 2.0.
    pub(crate) fn read(body: RawJson<'_>) -> Result<Option<Self>, KeyError> {
        let is_version = |version: RawJson<'_>| version.is_str("2.0");
        let text = |found: Option<RawJson<'_>>| Some(found?.as_str()?.into_owned());
        // An array is a batch, or no JSON-RPC.
        if body.bytes().starts_with(b"[") || !body.member("jsonrpc")?.is_some_and(is_version) {
            return Ok(None);
        }
        let (Some(id), Some(method)) = (body.member("id")?, text(body.member("method")?)) else {
            return Ok(None);
        };
        if !matches!(id.bytes(), [b'"' | b'-' | b'0'..=b'9', ..]) {
            return Ok(None);
        }
        let tool = match method == TOOLS {
            true => text(body.pointer("/params/name")?),
            false => None,
        };
        let id = id.parse().map_err(|_| KeyError::CallId)?;
        Ok(Some(Self { id, method, tool }))
    }

    /// Returns the `id` of the request.
    #[must_use]
    pub fn id(&self) -> &Value {
        &self.id
    }

    /// Returns the method.
    #[must_use]
    pub fn method(&self) -> &str {
        &self.method
    }

    /// Returns the tool's name for `tools/call`, else the method.
    #[must_use]
    pub fn name(&self) -> &str {
        self.tool.as_deref().unwrap_or(&self.method)
    }
}
