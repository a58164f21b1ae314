//! [`Call`]: one call in its envelope.

use serde_json::Value;

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
    pub(crate) fn read(body: &Value) -> Option<Self> {
        if body.get("jsonrpc")? != "2.0" {
            return None;
        }
        let id = body.get("id").filter(|id| id.is_string() || id.is_number());
        let method = body.get("method")?.as_str()?;
        let tool = body
            .pointer("/params/name")
            .filter(|_| method == TOOLS)
            .and_then(Value::as_str);
        Some(Self {
            id: id?.clone(),
            method: method.to_owned(),
            tool: tool.map(str::to_owned),
        })
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
