//! [`Provider`]: the service that sends the webhooks.

use std::fmt;

/// The service that sends the webhooks: it determines the signature scheme and the id of an event.
///
/// | | signed | header | time | id | request is the same by |
/// | --- | --- | --- | --- | --- | --- |
/// | `Stripe` | `t.body` | `Stripe-Signature: t=…,v1=…` | in the signature | `id` of the body | its `type`, `created` and `data` |
/// | `GitHub` | body | `X-Hub-Signature-256: sha256=…` | none | `X-GitHub-Delivery` | its bytes |
/// | `Shopify` | body | `X-Shopify-Hmac-Sha256`, base64 | none | topic and `X-Shopify-Event-Id` | its bytes |
/// | `Slack` | `v0:t:body` | `X-Slack-Signature: v0=…` | `X-Slack-Request-Timestamp` | `event_id` of the body | its `event_time` and `event` |
///
/// All are HMAC-SHA-256 of the body as it was sent, byte for byte: pass the received bytes to the
/// receiver, never JSON that was parsed and serialized again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Provider {
    /// <https://docs.stripe.com/webhooks#verify-manually>, events at
    /// <https://docs.stripe.com/api/events/object>.
    ///
    /// Several `v1` are allowed, because Stripe sends several while a secret is rolled.
    /// `pending_webhooks` differs between two deliveries of one event, so it is not compared.
    Stripe,
    /// <https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries>, headers
    /// at <https://docs.github.com/en/webhooks/webhook-events-and-payloads#delivery-headers>.
    ///
    /// A redelivery has the id of the first delivery.
    GitHub,
    /// <https://shopify.dev/docs/apps/build/webhooks/verify-deliveries>; the id at
    /// <https://shopify.dev/docs/apps/build/webhooks/ignore-duplicates>.
    ///
    /// One action of a merchant may cause events of several topics with one id, so the topic is
    /// part of the id. Two subscriptions to one topic with different fields each need their own
    /// endpoint and scope.
    Shopify,
    /// <https://docs.slack.dev/authentication/verifying-requests-from-slack>; the Events API,
    /// <https://docs.slack.dev/apis/events-api>, not commands and interactions, whose bodies have
    /// no event id.
    Slack,
}

impl Provider {
    /// Returns the operation of the events' keys, such as `webhook.github`.
    #[must_use]
    pub fn operation(self) -> &'static str {
        match self {
            Self::Stripe => "webhook.stripe",
            Self::GitHub => "webhook.github",
            Self::Shopify => "webhook.shopify",
            Self::Slack => "webhook.slack",
        }
    }
}

/// Writes the provider's name.
impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stripe => "Stripe",
            Self::GitHub => "GitHub",
            Self::Shopify => "Shopify",
            Self::Slack => "Slack",
        })
    }
}
