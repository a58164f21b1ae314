//! [`Call`]: one call in its envelope.

use std::borrow::Cow;

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
    /// Returns the method, and the tool of `tools/call`. `None` for a batch, or without a method. Some
    /// readers find a name in an object or a number, too; those are errors.
    pub(crate) fn names(body: RawJson<'_>) -> Result<Option<(String, Option<String>)>, KeyError> {
        let text = |found: Option<RawJson<'_>>| {
            let text = found.map(|found| found.as_str().ok_or(KeyError::CallName));
            Ok::<_, KeyError>(text.transpose()?.map(Cow::into_owned))
        };
        // An array is a batch.
        if body.bytes().starts_with(b"[") {
            return Ok(None);
        }
        let Some(method) = text(body.member("method")?)? else {
            return Ok(None);
        };
        let tool = match method == TOOLS {
            true => text(body.pointer("/params/name")?)?,
            false => None,
        };
        Ok(Some((method, tool)))
    }

    /// Reads a call with this method and tool.
    pub(crate) fn read(
        body: RawJson<'_>,
        method: String,
        tool: Option<String>,
    ) -> Result<Self, KeyError> {
        let version = body.member("jsonrpc")?;
        let is_id = |id: &RawJson<'_>| matches!(id.bytes(), [b'"' | b'-' | b'0'..=b'9', ..]);
        let id = body.member("id")?.filter(is_id);
        let id = id.filter(|_| version.is_some_and(|version| version.is_str("2.0")));
        let id = id.and_then(|id| id.parse().ok()).ok_or(KeyError::CallId)?;
        Ok(Self { id, method, tool })
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
