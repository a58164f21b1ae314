//! [`Verifier`]: checks that a delivery comes from its provider.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use idem_core::Result;

use crate::secret::Secret;
use crate::{Clock, Provider, Rejection, SystemClock, schemes};

/// Checks that a delivery comes from its provider, unchanged and recently signed.
///
/// `Debug` shows no secret.
#[derive(Debug, Clone)]
pub struct Verifier {
    provider: Provider,
    secrets: Vec<Secret>,
    tolerance: Duration,
    clock: Arc<dyn Clock>,
}

impl Verifier {
    /// The default tolerance: 5 minutes, as Stripe and Slack advise.
    pub const TOLERANCE: Duration = Duration::from_secs(5 * 60);

    /// Accepts deliveries signed with this secret: the text that the provider shows, unchanged
    /// (Stripe's with its `whsec_`).
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](idem_core::ErrorKind::InvalidInput) when the secret is empty.
    pub fn new(provider: Provider, secret: impl AsRef<[u8]>) -> Result<Self> {
        Ok(Self {
            provider,
            secrets: vec![Secret::new(secret.as_ref())?],
            tolerance: Self::TOLERANCE,
            clock: Arc::new(SystemClock),
        })
    }

    /// Also accepts deliveries signed with this secret, for the time in which a secret is replaced.
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new).
    pub fn with_secret(mut self, secret: impl AsRef<[u8]>) -> Result<Self> {
        self.secrets.push(Secret::new(secret.as_ref())?);
        Ok(self)
    }

    /// Sets how far the time of a signature may be from now, before and after, in whole seconds. It
    /// has no effect where the provider signs no time. Default: [`TOLERANCE`](Self::TOLERANCE).
    #[must_use]
    pub fn with_tolerance(mut self, tolerance: Duration) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// Sets another clock, for tests.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Returns the provider whose deliveries it verifies.
    #[must_use]
    pub fn provider(&self) -> Provider {
        self.provider
    }

    /// Checks that this body comes from the provider: first the signature, then its age.
    ///
    /// # Errors
    ///
    /// A [`Rejection`] with status 401.
    pub fn verify(&self, headers: &HeaderMap, body: &[u8]) -> Result<(), Rejection> {
        let presented = schemes::presented(self.provider, headers)?;
        let prefix = presented
            .time
            .map(|time| schemes::prefix(self.provider, time));
        let prefix = prefix.unwrap_or_default();
        let is_signed = self.secrets.iter().fold(false, |found, secret| {
            secret.signed(prefix.as_bytes(), body, &presented.signatures) | found
        });
        if !is_signed {
            return Err(Rejection::WrongSignature);
        }
        presented.time.map_or(Ok(()), |time| self.check_age(time))
    }

    fn check_age(&self, time: u64) -> Result<(), Rejection> {
        let (now, tolerance) = (self.clock.unix_seconds(), self.tolerance.as_secs());
        if now.saturating_sub(time) > tolerance {
            Err(Rejection::TooOld)
        } else if time.saturating_sub(now) > tolerance {
            Err(Rejection::TooNew)
        } else {
            Ok(())
        }
    }

    /// Returns the headers with which the provider would sign this body now, with the first secret:
    /// for tests, and for senders of webhooks in one of these schemes. They do not include the
    /// event's id and topic.
    #[must_use]
    pub fn sign(&self, body: &[u8]) -> HeaderMap {
        let time = self.clock.unix_seconds();
        let prefix = schemes::prefix(self.provider, time);
        let Some(secret) = self.secrets.first() else {
            return HeaderMap::new();
        };
        let signature = secret.sign(prefix.as_bytes(), body);
        schemes::headers(self.provider, &signature, time)
            .into_iter()
            .filter_map(|(name, value)| Some((name, HeaderValue::try_from(value).ok()?)))
            .collect()
    }
}
