//! [`Plan`]: a world, as a client describes it.

use std::collections::HashMap;

use idem_core::{Error, MemoryStore, Result};
use idem_http::{HttpPolicy, presets};
use idem_webhooks::{CloudEvents, Provider, Receiver, Signature, Verifier};
use serde::Deserialize;
use serde_json::Value;

/// A world, as a client describes it.
#[derive(Debug, Deserialize)]
pub(crate) struct Plan {
    /// The name of a preset of idem-http, or `webhooks/` and the name of a provider.
    preset: String,
    /// What the preset takes; the secret and the URL of a provider.
    #[serde(default)]
    arguments: Vec<String>,
    /// The answers of the handler's runs; the last one is that of all later runs.
    pub(crate) answers: Vec<Planned>,
    /// The answers to requests that are no work: methods of JSON-RPC, tools, or `GET /path`.
    #[serde(default)]
    pub(crate) free: HashMap<String, Planned>,
    /// What happens to each request that is work; nothing happens to later ones.
    #[serde(default)]
    pub(crate) wire: Vec<Option<Fault>>,
}

/// An answer. In its texts, `"$id"` is the id of the call, and `$run` the number of the run.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Planned {
    /// Default: 200.
    pub(crate) status: Option<u16>,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Value,
    /// The events of a stream, in place of the body; each waits until the client lets it go.
    pub(crate) events: Vec<Value>,
    /// The handler waits until so many requests have arrived.
    pub(crate) requests: usize,
}

/// What happens to a request on the wire.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Fault {
    /// The connection ends in place of the answer.
    Lose,
    /// It arrives twice, one after the other; the second answer counts.
    Repeat,
    /// It arrives late.
    Delay,
}

impl Plan {
    fn argument(&self, at: usize) -> &str {
        self.arguments.get(at).map_or("", String::as_str)
    }

    /// Returns the receiver of webhooks, if it is one.
    pub(crate) fn receiver(&self) -> Result<Option<Receiver>> {
        let Some(name) = self.preset.strip_prefix("webhooks/") else {
            return Ok(None);
        };
        let provider = match name {
            // The application verifies AdCP's signatures of RFC 9421; this one is of Standard Webhooks.
            "adcp" => Provider::adcp().with_signature(Signature::standard_webhooks()),
            "cloud_events" => {
                let provider = Provider::cloud_events(CloudEvents::new());
                provider.with_signature(Signature::standard_webhooks())
            }
            "github" => Provider::github(),
            "shopify" => Provider::shopify(),
            "shopify_events" => Provider::shopify_events(),
            "slack" => Provider::slack(),
            "standard_webhooks" => Provider::standard_webhooks(),
            "stripe" => Provider::stripe(),
            "svix" => Provider::svix(),
            "twilio" => Provider::twilio(self.argument(1))?,
            "twilio_shared_key" => Provider::twilio_shared_key(self.argument(1))?,
            _ => return Err(Error::invalid_input("no such provider")),
        };
        let verifier = Verifier::new(provider, self.argument(0))?;
        Receiver::new(MemoryStore::new(), verifier, "clients").map(Some)
    }

    pub(crate) fn policy(&self) -> Result<HttpPolicy> {
        let arguments = self.arguments.iter().cloned();
        Ok(match self.preset.as_str() {
            "a2a" => presets::a2a(),
            "a2a_rest" => presets::a2a_rest(),
            "acp_mcp" => presets::acp_mcp(),
            "adcp" => presets::adcp(arguments, [""; 0]),
            "adyen" => presets::adyen(),
            "aip155" => presets::aip155(),
            "aws" => presets::aws(self.argument(0)),
            "azure" => presets::azure(),
            "iceberg" => presets::iceberg(),
            "ietf" => HttpPolicy::ietf(),
            "mcp" => presets::mcp(arguments),
            "paypal" => presets::paypal(),
            "square" => presets::square(),
            "stripe" => presets::stripe(),
            "stripe_v2" => presets::stripe_v2(),
            "ucp" => presets::ucp(),
            "ucp_mcp" => presets::ucp_mcp(),
            _ => return Err(Error::invalid_input("no such preset")),
        })
    }
}
