//! The providers that this crate knows.

use http::{HeaderName, Request, StatusCode};
use idem_core::json::RawJson;
use idem_core::{Bytes, Result};

use crate::secret::KeyText;
use crate::twilio::PublicUrl;
use crate::{Compared, Encoding, EventId, Part, Provider, Signature, Statuses};

const fn header(name: &'static str) -> HeaderName {
    HeaderName::from_static(name)
}

impl Provider {
    /// Returns Stripe: <https://docs.stripe.com/webhooks#verify-manually>, events at
    /// <https://docs.stripe.com/api/events/object>.
    ///
    /// Several `v1` are allowed, because Stripe sends several while a secret is rolled.
    /// `pending_webhooks` differs between two deliveries of one event, so it is not compared. Nor is
    /// `data`, except for the id of its object: [during an
    /// upgrade](https://docs.stripe.com/webhooks/versioning) two endpoints get each event, in two
    /// versions of the API.
    #[must_use]
    pub fn stripe() -> Self {
        let compared = [
            "/type",
            "/created",
            "/account",
            "/livemode",
            "/data/object/id",
        ];
        let id = EventId::pointer("/id")
            .with_topic_pointer("/type")
            .with_compared(Compared::fields(compared));
        let signature = Signature::hmac_sha256(header("stripe-signature"))
            .with_prefix("v1=")
            .with_separator(',')
            .with_time_element("t=")
            .with_signed([Part::Time, Part::Text(".".into()), Part::Body]);
        Self::new("stripe", id).with_signature(signature)
    }

    /// Returns GitHub:
    /// <https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries>, headers
    /// at <https://docs.github.com/en/webhooks/webhook-events-and-payloads#delivery-headers>.
    ///
    /// A redelivery has the id of the first delivery.
    #[must_use]
    pub fn github() -> Self {
        let id = EventId::header(header("x-github-delivery"))
            .with_topic_header(header("x-github-event"));
        let signature =
            Signature::hmac_sha256(header("x-hub-signature-256")).with_prefix("sha256=");
        Self::new("github", id).with_signature(signature)
    }

    /// Returns Shopify: <https://shopify.dev/docs/apps/build/webhooks/verify-deliveries>; the id at
    /// <https://shopify.dev/docs/apps/build/webhooks/ignore-duplicates>.
    ///
    /// One action of a merchant may cause events of several topics with one id, so the topic is
    /// part of the identity. Two subscriptions to one topic with different fields each need their
    /// own endpoint and scope.
    #[must_use]
    pub fn shopify() -> Self {
        let topic = header("x-shopify-topic");
        let id = EventId::header(header("x-shopify-event-id"))
            .within_header(topic.clone())
            .with_topic_header(topic);
        let signature =
            Signature::hmac_sha256(header("x-shopify-hmac-sha256")).with_encoding(Encoding::Base64);
        Self::new("shopify", id).with_signature(signature)
    }

    /// Returns Shopify's Events, whose headers begin with `Shopify-` instead of `X-Shopify-`:
    /// <https://shopify.dev/docs/apps/build/events/verify-deliveries>.
    ///
    /// A delivery is known by `Shopify-Webhook-Id`.
    #[must_use]
    pub fn shopify_events() -> Self {
        let id = EventId::header(header("shopify-webhook-id")).with_topic_pointer("/topic");
        let signature =
            Signature::hmac_sha256(header("shopify-hmac-sha256")).with_encoding(Encoding::Base64);
        Self::new("shopify_events", id).with_signature(signature)
    }

    /// Returns Slack: <https://docs.slack.dev/authentication/verifying-requests-from-slack>; the
    /// Events API, <https://docs.slack.dev/apis/events-api>, not commands and interactions, whose
    /// bodies have no event id.
    ///
    /// The receiver answers the handshake by which Slack checks a new endpoint. An
    /// [`app_rate_limited`](https://docs.slack.dev/reference/events/app_rate_limited), which has no
    /// `event_id`, is known by its team and minute.
    #[must_use]
    pub fn slack() -> Self {
        let compared = ["/team_id", "/api_app_id", "/event_time", "/event"];
        let rate_limited = EventId::pointer("/minute_rate_limited")
            .within_pointer("/team_id")
            .within_pointer("/type")
            .with_topic_pointer("/type");
        let id = EventId::pointer("/event_id")
            .with_topic_pointer("/event/type")
            .with_compared(Compared::fields(compared))
            .or(rate_limited);
        let colon = || Part::Text(":".into());
        let signature = Signature::hmac_sha256(header("x-slack-signature"))
            .with_prefix("v0=")
            .with_time_header(header("x-slack-request-timestamp"))
            .with_signed([Part::Text("v0:".into()), Part::Time, colon(), Part::Body]);
        Self::new("slack", id)
            .with_signature(signature)
            .with_challenge(slack_challenge)
    }

    /// Returns a sender that follows [Standard
    /// Webhooks](https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md).
    /// See [`Signature::standard_webhooks`] for the secrets.
    ///
    /// The id is signed and the same for all attempts; each attempt has its own time and signature.
    /// The sender heeds `Retry-After`, and repeats a delivery after every status outside of 2xx.
    /// [`Statuses`] says what 410 and 429 would do.
    #[must_use]
    pub fn standard_webhooks() -> Self {
        let id = EventId::header(header("webhook-id"));
        Self::new("standard", id).with_signature(Signature::standard_webhooks())
    }

    /// Returns Svix, and the services that send by it: [`standard_webhooks`](Self::standard_webhooks)
    /// with headers that begin with `svix-`:
    /// <https://docs.svix.com/receiving/verifying-payloads/how-manual>.
    #[must_use]
    pub fn svix() -> Self {
        Self::new("svix", EventId::header(header("svix-id"))).with_signature(Signature::svix())
    }

    /// Returns Twilio, for status callbacks and events:
    /// <https://www.twilio.com/docs/usage/webhooks/webhooks-security>.
    ///
    /// `url` is the URL of the webhook as Twilio knows it, without query and fragment; the query is
    /// that of each request. A form is signed by its fields, any other body by `bodySHA256` in the
    /// query. The secret is the primary auth token. Twilio does not sign the id, and signs by
    /// HMAC-SHA-1 unless a [webhook rule](Self::twilio_shared_key) says otherwise.
    ///
    /// A finished event is answered with 204, because Twilio sends the text of any other answer to
    /// the phone that wrote a message. A webhook whose answer has a content (TwiML) is not for this
    /// receiver: it would be lost for the second delivery. Twilio repeats a delivery only as the
    /// [connection overrides](https://www.twilio.com/docs/usage/webhooks/webhooks-connection-overrides)
    /// in the fragment of the URL say: `#rc=5&rp=all` asks for five repetitions after any failure.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](idem_core::ErrorKind::InvalidInput) when the URL is malformed, or has a
    /// query or a fragment.
    pub fn twilio(url: &str) -> Result<Self> {
        Self::of_twilio(url, KeyText::HmacSha1)
    }

    /// Returns Twilio where a webhook rule signs by HMAC-SHA-256 with a shared key, which is the
    /// secret: <https://www.twilio.com/docs/usage/webhooks/webhook-shared-keys>. Otherwise as
    /// [`twilio`](Self::twilio).
    ///
    /// # Errors
    ///
    /// As for [`twilio`](Self::twilio).
    pub fn twilio_shared_key(url: &str) -> Result<Self> {
        Self::of_twilio(url, KeyText::HmacSha256)
    }

    fn of_twilio(url: &str, key: KeyText) -> Result<Self> {
        let id = EventId::header(header("i-twilio-idempotency-token"));
        let statuses = Statuses::default().with_done(StatusCode::NO_CONTENT);
        Ok(Self::new("twilio", id)
            .with_signature(Signature::twilio(PublicUrl::parse(url)?, key))
            .with_statuses(statuses))
    }

    /// Returns a sender of the Ad Context Protocol:
    /// <https://docs.adcontextprotocol.org/docs/building/by-layer/L3/webhooks>.
    ///
    /// Its RFC 9421 signatures are not verified here. Verify them before, name the sender with
    /// [`Sender`](crate::Sender), and use [`Verifier::by_application`](crate::Verifier::by_application).
    /// The key belongs to the sender, for all endpoints: give their receivers one scope, and one
    /// store that is durable.
    ///
    /// A duplicate is answered with 200, a delivery during another with 503, the key with another
    /// payload with 409, after which the sender stops, and an error of the handler with 503.
    #[must_use]
    pub fn adcp() -> Self {
        let id = EventId::pointer("/idempotency_key");
        let statuses = Statuses::default()
            .with_in_flight(StatusCode::SERVICE_UNAVAILABLE)
            .with_conflict(StatusCode::CONFLICT)
            .with_error(StatusCode::SERVICE_UNAVAILABLE);
        Self::new("adcp", id).with_statuses(statuses)
    }
}

/// Returns the text that Slack sends once to check that the endpoint exists, and expects back.
fn slack_challenge(request: &Request<Bytes>) -> Option<String> {
    let json = RawJson::read(request.body())?;
    let text = |name| Some(json.member(name).ok()??.as_str()?.into_owned());
    let is_handshake = text("type")? == "url_verification";
    text("challenge").filter(|_| is_handshake)
}
