//! [`Provider`]: the service that sends the webhooks.

use std::fmt;
use std::sync::Arc;

use http::{Method, Request};
use idem_core::{Bytes, Result};

use crate::cloud_events::Events;
use crate::{CloudEvents, EventId, Received, Rejection, Signature, Statuses};

/// The service that sends the webhooks: how it signs, where it puts the id of an event, and which
/// statuses it expects.
///
/// | | signed | header | time | id | request is the same by |
/// | --- | --- | --- | --- | --- | --- |
/// | [`stripe`](Self::stripe) | `t.body` | `Stripe-Signature: t=…,v1=…` | in the signature | `id` of the body | its `type`, `created` and object |
/// | [`github`](Self::github) | body | `X-Hub-Signature-256: sha256=…` | none | `X-GitHub-Delivery` | its bytes |
/// | [`shopify`](Self::shopify) | body | `X-Shopify-Hmac-Sha256`, base64 | none | topic and `X-Shopify-Event-Id` | its bytes |
/// | [`shopify_events`](Self::shopify_events) | body | `Shopify-Hmac-Sha256`, base64 | none | `Shopify-Webhook-Id` | its bytes |
/// | [`slack`](Self::slack) | `v0:t:body` | `X-Slack-Signature: v0=…` | `X-Slack-Request-Timestamp` | `event_id` of the body | its `event_time` and `event` |
/// | [`standard_webhooks`](Self::standard_webhooks) | `id.t.body` | `webhook-signature: v1,… v1a,…` | `webhook-timestamp` | `webhook-id` | its bytes |
/// | [`svix`](Self::svix) | `id.t.body` | `svix-signature`, likewise | `svix-timestamp` | `svix-id` | its bytes |
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
/// Twitch, which signs the id and the time without a text between them:
///
/// ```
/// use idem_webhooks::{EventId, Part, Provider, Signature, TimeFormat, Verifier};
/// use idem_webhooks::http::HeaderName;
///
/// const ID: HeaderName = HeaderName::from_static("twitch-eventsub-message-id");
/// const TIME: HeaderName = HeaderName::from_static("twitch-eventsub-message-timestamp");
/// const SIGNATURE: HeaderName = HeaderName::from_static("twitch-eventsub-message-signature");
///
/// let signature = Signature::hmac_sha256(SIGNATURE)
///     .with_prefix("sha256=")
///     .with_time_header(TIME)
///     .with_time_format(TimeFormat::Rfc3339)
///     .with_signed([Part::HeaderOfLength(ID, 36), Part::Time, Part::Body]);
/// let twitch = Provider::new("twitch", EventId::header(ID))
///     .with_signature(signature)
///     .with_challenge(|request| {
///         let body: serde_json::Value = serde_json::from_slice(request.body()).ok()?;
///         Some(body["challenge"].as_str()?.to_owned())
///     });
/// let verifier = Verifier::new(twitch, "the secret")?;
/// # Ok::<(), idem_core::Error>(())
/// ```
///
/// [`EventId::with_events`] says where a delivery has several events, as LINE's do. Not to be had
/// here: ECDSA (SendGrid), signatures over the path or the method (HubSpot, Meta's `GET` with a
/// token), a challenge that is answered in JSON (Discord's `PING`). Verify such a delivery in front
/// of the receiver, and use [`Verifier::by_application`](crate::Verifier::by_application).
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
    challenge: Option<Challenge>,
}

/// Returns the answer to a signed request that is no event.
#[derive(Clone)]
struct Challenge(Arc<Answers>);

type Answers = dyn Fn(&Request<Bytes>) -> Option<String> + Send + Sync;

impl fmt::Debug for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Challenge(..)")
    }
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
            challenge: None,
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

    /// Answers the requests by which the provider checks an endpoint: those for which `challenge`
    /// returns a text, which becomes the body of a 200. The receiver has verified their signature.
    #[must_use]
    pub fn with_challenge(
        mut self,
        challenge: impl Fn(&Request<Bytes>) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        let challenge = Challenge(Arc::new(challenge));
        Arc::make_mut(&mut self.0).challenge = Some(challenge);
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
        let Challenge(challenge) = self.0.challenge.as_ref()?;
        challenge(request).map(Received::Challenge)
    }

    /// Identifies the events of a delivery that is verified.
    pub(crate) fn identify(&self, request: &Request<Bytes>) -> Result<Events, Rejection> {
        match &self.0.identity {
            IdentityRule::One(id) => id.events(request.headers(), request.body()),
            IdentityRule::CloudEvents(_) => CloudEvents::identify(request),
        }
    }
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
