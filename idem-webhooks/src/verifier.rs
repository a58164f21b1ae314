//! [`Verifier`]: checks that a delivery comes from its provider.

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use idem_core::{Bytes, Error, Result};

use crate::secret::Secret;
use crate::{Clock, Provider, Rejection, Sender, Signature, SystemClock};

/// Checks that a delivery comes from its provider, unchanged and recently signed.
///
/// `Debug` shows no secret.
#[derive(Debug, Clone)]
pub struct Verifier {
    provider: Provider,
    proof: Proof,
    tolerance: Duration,
    clock: Arc<dyn Clock>,
}

#[derive(Debug, Clone)]
enum Proof {
    Signature(Vec<Secret>),
    ByApplication,
    Unsigned,
}

impl Verifier {
    /// The default tolerance: 5 minutes, as Stripe, Slack and Standard Webhooks advise.
    pub const TOLERANCE: Duration = Duration::from_secs(5 * 60);

    /// Accepts deliveries signed with this secret: the text that the provider shows, unchanged
    /// (with its `whsec_` or `whpk_`).
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](idem_core::ErrorKind::InvalidInput) when the secret is empty or not in the
    /// provider's form, when the provider has no signature, or when its configuration could prove
    /// nothing: a signature that does not cover the body, or not the time that is sent, or that fits
    /// two deliveries (see [`Part`](crate::Part)).
    pub fn new(provider: Provider, secret: impl AsRef<[u8]>) -> Result<Self> {
        Self::of(provider, Proof::Signature(Vec::new()))?.with_secret(secret)
    }

    /// Accepts deliveries whose sender the application has verified itself, and named with a
    /// [`Sender`] in the request's extensions. A delivery without it is refused as unsigned.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](idem_core::ErrorKind::InvalidInput) when the configuration of the provider
    /// is invalid.
    pub fn by_application(provider: Provider) -> Result<Self> {
        Self::of(provider, Proof::ByApplication)
    }

    /// Accepts **every** delivery, unverified. Only for an endpoint that nobody but the provider
    /// can reach: behind mutual TLS, a private network, or a layer that checks a token. Anybody
    /// else could send events, and occupy the ids of genuine ones.
    ///
    /// # Errors
    ///
    /// As for [`by_application`](Self::by_application).
    pub fn unsigned(provider: Provider) -> Result<Self> {
        Self::of(provider, Proof::Unsigned)
    }

    fn of(provider: Provider, proof: Proof) -> Result<Self> {
        provider.check()?;
        Ok(Self {
            provider,
            proof,
            tolerance: Self::TOLERANCE,
            clock: Arc::new(SystemClock),
        })
    }

    /// Also accepts deliveries signed with this secret, for the time in which a secret is replaced.
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new); also when this verifier checks no signatures.
    pub fn with_secret(mut self, secret: impl AsRef<[u8]>) -> Result<Self> {
        match (&mut self.proof, self.provider.signature()) {
            (Proof::Signature(secrets), Some(signature)) => {
                secrets.push(signature.secret(secret.as_ref())?);
                Ok(self)
            }
            _ => Err(Error::invalid_input(
                "a secret, but no signature: choose one with Provider::with_signature",
            )),
        }
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
    pub fn provider(&self) -> &Provider {
        &self.provider
    }

    /// Checks that this request comes from the provider: first the signature, then its age.
    ///
    /// # Errors
    ///
    /// A [`Rejection`] for which [`is_unverified`](Rejection::is_unverified) is true.
    pub fn verify(&self, request: &Request<Bytes>) -> Result<(), Rejection> {
        match (&self.proof, self.provider.signature()) {
            (Proof::Unsigned, _) => Ok(()),
            (Proof::ByApplication, _) => match self.sender(request) {
                Some(_) => Ok(()),
                None => Err(Rejection::Unsigned),
            },
            (Proof::Signature(secrets), Some(signature)) => {
                self.verify_signature(signature, secrets, request)
            }
            (Proof::Signature(_), None) => Err(Rejection::Unsigned),
        }
    }

    /// Returns the sender that the application has verified, where that is the proof.
    pub(crate) fn sender<'a>(&self, request: &'a Request<Bytes>) -> Option<&'a Sender> {
        let is_proof = matches!(self.proof, Proof::ByApplication);
        let sender = is_proof.then(|| request.extensions().get::<Sender>())?;
        sender.filter(|sender| !sender.name().trim().is_empty())
    }

    fn verify_signature(
        &self,
        signature: &Signature,
        secrets: &[Secret],
        request: &Request<Bytes>,
    ) -> Result<(), Rejection> {
        let presented = signature.presented(request.headers())?;
        let (text, time) = presented.time.unzip();
        let contents = signature.contents(request, text)?;
        let (mut is_malformed, mut is_signed) = (true, false);
        for secret in secrets {
            let candidates = signature.decode(&presented, secret);
            if candidates.is_empty() {
                continue;
            }
            is_malformed = false;
            for content in &contents {
                is_signed |= secret.signed(content, &candidates);
            }
        }
        match is_signed {
            true => time.map_or(Ok(()), |time| self.check_age(time)),
            false if is_malformed => Err(Rejection::MalformedSignature),
            false => Err(Rejection::WrongSignature),
        }
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

    /// Adds the headers with which the provider would sign this request now, with the first secret:
    /// for tests, and for senders of webhooks in one of these schemes. It does not add the event's
    /// id and topic.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](idem_core::ErrorKind::InvalidInput) when the request lacks a header that is
    /// signed, or when the first secret is a public key.
    pub fn sign(&self, request: &mut Request<Bytes>) -> Result<()> {
        let (Proof::Signature(secrets), Some(signature)) = (&self.proof, self.provider.signature())
        else {
            return Ok(());
        };
        let text = signature.time(self.clock.unix_seconds());
        let contents = signature.contents(request, Some(&text));
        let contents = contents.map_err(|_| {
            Error::invalid_input("the request lacks what its signature would cover")
        })?;
        let signed = secrets.first().zip(contents.first());
        let signed = signed.and_then(|(secret, content)| secret.sign(content));
        let signed = signed.ok_or_else(|| Error::invalid_input("a public key signs nothing"))?;
        signature.write(request.headers_mut(), &signed, &text)
    }
}
