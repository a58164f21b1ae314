//! [`Provider`]: whose webhooks they are.

use std::fmt;

/// Whose webhooks they are: how they are signed, and what their event's id is.
///
/// | | signed | header | time | id | request is the same by |
/// | --- | --- | --- | --- | --- | --- |
/// | `Stripe` | `t.body` | `Stripe-Signature: t=…,v1=…` | in the signature | `id` of the body | its `type`, `created` and `data` |
/// | `GitHub` | body | `X-Hub-Signature-256: sha256=…` | none | `X-GitHub-Delivery` | its bytes |
/// | `Shopify` | body | `X-Shopify-Hmac-Sha256`, base64 | none | topic and `X-Shopify-Event-Id` | its bytes |
/// | `Slack` | `v0:t:body` | `X-Slack-Signature: v0=…` | `X-Slack-Request-Timestamp` | `event_id` of the body | its `event_time` and `event` |
///
/// All are HMAC-SHA-256 of the body as it was sent, byte for byte: give the receiver the bytes,
/// never JSON that was parsed and written again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Provider {
    /// <https://docs.stripe.com/webhooks#verify-manually>, events at
    /// <https://docs.stripe.com/api/events/object>.
    ///
    /// Several `v1` are allowed, as sent while a secret is rolled. `pending_webhooks` differs
    /// between two deliveries of one event, so it does not count.
    Stripe,
    /// <https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries>, headers
    /// at <https://docs.github.com/en/webhooks/webhook-events-and-payloads#delivery-headers>.
    ///
    /// A delivery that somebody sends again has the id of the first.
    GitHub,
    /// <https://shopify.dev/docs/apps/build/webhooks/verify-deliveries>; the id at
    /// <https://shopify.dev/docs/apps/build/webhooks/ignore-duplicates>.
    ///
    /// One action of a merchant may cause events of several topics with one id, so the topic
    /// counts. Two subscriptions to one topic with different fields need an endpoint, and a scope,
    /// each.
    Shopify,
    /// <https://docs.slack.dev/authentication/verifying-requests-from-slack>; the Events API,
    /// <https://docs.slack.dev/apis/events-api>, not commands and interactions, whose bodies have
    /// no event id.
    Slack,
}

impl Provider {
    /// The operation of the events' keys: `webhook.github`.
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

/// The name as it is written.
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
