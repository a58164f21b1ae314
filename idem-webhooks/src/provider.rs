//! [`Provider`]: the service that sends the webhooks.

use std::fmt;
use std::sync::Arc;

use http::{Method, Request};
use idem_core::json::RawJson;
use idem_core::{Bytes, Result};

use crate::cloud_events::Events;
use crate::{CloudEvents, EventId, Received, Rejection, Signature, Statuses};

/// The service that sends the webhooks: how it signs, where it puts the id of an event, and which
/// statuses it expects.
///
/// | | signed | header | time | id | request is the same by |
/// | --- | --- | --- | --- | --- | --- |
/// | [`stripe`](Self::stripe) | `t.body` | `Stripe-Signature: t=…,v1=…` | in the signature | `id` of the body | its `type`, `created` and `data` |
/// | [`github`](Self::github) | body | `X-Hub-Signature-256: sha256=…` | none | `X-GitHub-Delivery` | its bytes |
/// | [`shopify`](Self::shopify) | body | `X-Shopify-Hmac-Sha256`, base64 | none | topic and `X-Shopify-Event-Id` | its bytes |
/// | [`slack`](Self::slack) | `v0:t:body` | `X-Slack-Signature: v0=…` | `X-Slack-Request-Timestamp` | `event_id` of the body | its `event_time` and `event` |
/// | [`standard_webhooks`](Self::standard_webhooks) | `id.t.body` | `webhook-signature: v1,… v1a,…` | `webhook-timestamp` | `webhook-id` | its bytes |
/// | [`twilio`](Self::twilio) | URL and form, or URL and digest | `X-Twilio-Signature`, HMAC-SHA-1 | none | `I-Twilio-Idempotency-Token` | its bytes |
/// | [`adcp`](Self::adcp) | by the application | | | `idempotency_key` of the body | its JSON value |
/// | [`cloud_events`](Self::cloud_events) | by your choice | | | `source` and `id` | `type` and `data`, or its bytes |
///
/// Where no other algorithm is named it is HMAC-SHA-256. Signatures cover the body as it was sent,
/// byte for byte: pass the received bytes to the receiver, never JSON that was parsed and
/// serialized again.
///
/// # A provider of your own
///
/// ```
/// use idem_webhooks::http::HeaderName;
/// use idem_webhooks::{EventId, Provider, Signature, Verifier};
///
/// let signature = Signature::hmac_sha256(HeaderName::from_static("x-acme-signature"));
/// let acme = Provider::new("acme", EventId::pointer("/id")).with_signature(signature);
/// let verifier = Verifier::new(acme, "the secret")?;
/// # Ok::<(), idem_core::Error>(())
/// ```
///
/// # CloudEvents
///
/// CloudEvents have no signature of their own. Choose a signature, or say how else the endpoint is
/// protected:
///
/// ```
/// use idem_webhooks::{CloudEvents, Provider, Signature, Verifier};
///
/// let events = Provider::cloud_events(CloudEvents::new().with_any_origin());
/// let signed = events.clone().with_signature(Signature::standard_webhooks());
/// let signed = Verifier::new(signed, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")?;
/// let by_middleware = Verifier::by_application(events.clone())?;
/// let by_the_network = Verifier::unsigned(events)?;
/// # Ok::<(), idem_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Provider(Arc<Config>);

#[derive(Debug, Clone)]
struct Config {
    name: &'static str,
    operation: String,
    identity: IdentityRule,
    signature: Option<Signature>,
    statuses: Statuses,
    has_slack_challenge: bool,
}

#[derive(Debug, Clone)]
enum IdentityRule {
    One(EventId),
    CloudEvents(CloudEvents),
}

impl Provider {
    /// Creates a provider without a signature, and with the default statuses. The operation of its
    /// events' keys is `webhook.` and the name.
    #[must_use]
    pub fn new(name: &'static str, id: EventId) -> Self {
        Self::of(name, IdentityRule::One(id))
    }

    /// Returns the rules of [CloudEvents](https://cloudevents.io), without a signature.
    #[must_use]
    pub fn cloud_events(rules: CloudEvents) -> Self {
        Self::of("cloudevents", IdentityRule::CloudEvents(rules))
    }

    fn of(name: &'static str, identity: IdentityRule) -> Self {
        Self(Arc::new(Config {
            name,
            operation: format!("webhook.{name}"),
            identity,
            signature: None,
            statuses: Statuses::default(),
            has_slack_challenge: false,
        }))
    }

    /// Sets the signature.
    #[must_use]
    pub fn with_signature(mut self, signature: Signature) -> Self {
        Arc::make_mut(&mut self.0).signature = Some(signature);
        self
    }

    /// Sets the statuses.
    #[must_use]
    pub fn with_statuses(mut self, statuses: Statuses) -> Self {
        Arc::make_mut(&mut self.0).statuses = statuses;
        self
    }

    pub(crate) fn with_slack_challenge(mut self) -> Self {
        Arc::make_mut(&mut self.0).has_slack_challenge = true;
        self
    }

    /// Returns the operation of the events' keys, such as `webhook.github`.
    #[must_use]
    pub fn operation(&self) -> &str {
        &self.0.operation
    }

    pub(crate) fn signature(&self) -> Option<&Signature> {
        self.0.signature.as_ref()
    }

    pub(crate) fn statuses(&self) -> Statuses {
        self.0.statuses
    }

    pub(crate) fn check(&self) -> Result<()> {
        if let IdentityRule::One(id) = &self.0.identity {
            id.check()?;
        }
        self.signature().map_or(Ok(()), Signature::check)
    }

    /// Answers a request that is no event and that nobody signs.
    pub(crate) fn handshake<E>(&self, request: &Request<Bytes>) -> Option<Received<E>> {
        match &self.0.identity {
            IdentityRule::CloudEvents(rules) if request.method() == Method::OPTIONS => {
                let permission = rules.permit(request.headers());
                Some(permission.map_or_else(Received::Rejected, Received::Permitted))
            }
            _ => None,
        }
    }

    /// Answers a signed request that is no event.
    pub(crate) fn challenge<E>(&self, request: &Request<Bytes>) -> Option<Received<E>> {
        let has_challenge = self.0.has_slack_challenge;
        let challenge = has_challenge.then(|| slack_challenge(request.body()))?;
        challenge.map(Received::Challenge)
    }

    /// Identifies the events of a delivery that is verified.
    pub(crate) fn identify(&self, request: &Request<Bytes>) -> Result<Events, Rejection> {
        let body = request.body();
        match &self.0.identity {
            IdentityRule::One(id) => {
                let identity = id.identify(request.headers(), body);
                Ok(Events::One(body.clone(), identity))
            }
            IdentityRule::CloudEvents(_) => CloudEvents::identify(request),
        }
    }
}

/// Returns the text that Slack sends once to check that the endpoint exists, and expects back.
fn slack_challenge(body: &[u8]) -> Option<String> {
    let json = RawJson::read(body)?;
    let text = |name| Some(json.member(name).ok()??.as_str()?.into_owned());
    let is_handshake = text("type")? == "url_verification";
    text("challenge").filter(|_| is_handshake)
}

/// Writes the provider's name.
impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Provider").field(&self.0.name).finish()
    }
}
