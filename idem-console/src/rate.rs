//! [`RateLimit`]: how often a thing may be tried.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Most addresses that have a bucket of their own. Others are limited together.
const ADDRESSES: usize = 1_024;

/// The size of a bucket, and how fast it fills.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate {
    pub(crate) burst: f64,
    pub(crate) per_second: f64,
}

/// A bucket for each address, and one for all.
pub(crate) struct RateLimit {
    each: Rate,
    all: Rate,
    buckets: Mutex<Buckets>,
}

struct Buckets {
    all: Bucket,
    each: HashMap<IpAddr, Bucket>,
}

#[derive(Clone, Copy)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

impl Bucket {
    fn full(rate: Rate) -> Self {
        Self {
            tokens: rate.burst,
            at: Instant::now(),
        }
    }

    fn fill(&mut self, rate: Rate, now: Instant) {
        let gained = (now - self.at).as_secs_f64() * rate.per_second;
        self.tokens = (self.tokens + gained).min(rate.burst);
        self.at = now;
    }

    /// Returns how long it takes until there is a token.
    fn wait(&self, rate: Rate) -> Duration {
        Duration::from_secs_f64(((1.0 - self.tokens) / rate.per_second).max(0.0))
    }
}

impl RateLimit {
    pub(crate) fn new(each: Rate, all: Rate) -> Self {
        let buckets = Buckets {
            all: Bucket::full(all),
            each: HashMap::new(),
        };
        Self {
            each,
            all,
            buckets: Mutex::new(buckets),
        }
    }

    /// Takes a token of both buckets.
    ///
    /// # Errors
    ///
    /// How long to wait, when one is empty; then none is taken.
    pub(crate) fn take(&self, address: Option<IpAddr>) -> Result<(), Duration> {
        self.look(address, 1.0)
    }

    /// Returns whether a token could be taken.
    ///
    /// # Errors
    ///
    /// How long to wait, when there is none.
    pub(crate) fn check(&self, address: Option<IpAddr>) -> Result<(), Duration> {
        self.look(address, 0.0)
    }

    fn look(&self, address: Option<IpAddr>, taken: f64) -> Result<(), Duration> {
        let now = Instant::now();
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let Buckets { all, each } = &mut *buckets;
        all.fill(self.all, now);
        if each.len() >= ADDRESSES {
            each.retain(|_, bucket| {
                bucket.fill(self.each, now);
                bucket.tokens < self.each.burst
            });
        }
        let mut own = None;
        if let Some(address) = address.map(network) {
            let is_known = each.contains_key(&address);
            if is_known || each.len() < ADDRESSES {
                let bucket = each.entry(address).or_insert(Bucket::full(self.each));
                bucket.fill(self.each, now);
                own = Some(bucket);
            }
        }
        let mut wait = all.wait(self.all);
        if let Some(own) = &own {
            wait = wait.max(own.wait(self.each));
        }
        if wait > Duration::ZERO {
            return Err(wait);
        }
        all.tokens -= taken;
        if let Some(own) = own {
            own.tokens -= taken;
        }
        Ok(())
    }
}

/// Returns the address, of IPv6 only the network: one machine has all addresses of a /64.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let bits = address.to_bits() >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from_bits(bits))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit() -> RateLimit {
        let each = Rate {
            burst: 2.0,
            per_second: 1.0,
        };
        let all = Rate {
            burst: 3.0,
            per_second: 1.0,
        };
        RateLimit::new(each, all)
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_waits_for_its_bucket_and_all_for_theirs() {
        let limit = limit();
        let address = |last: u8| Some(IpAddr::from([10, 0, 0, last]));
        assert!(limit.take(address(1)).is_ok());
        assert!(limit.take(address(1)).is_ok());
        assert_eq!(limit.take(address(1)), Err(Duration::from_secs(1)));
        assert_eq!(limit.check(address(1)), Err(Duration::from_secs(1)));
        assert_eq!(limit.check(address(2)), Ok(()));
        assert!(limit.take(address(2)).is_ok());
        assert!(limit.take(address(3)).is_err());
        assert!(limit.take(None).is_err());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(limit.take(address(3)).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_has_one_bucket_for_its_network() {
        let limit = limit();
        for (host, is_taken) in [(1, true), (2, true), (3, false)] {
            let address = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host);
            assert_eq!(limit.take(Some(address.into())).is_ok(), is_taken);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_addresses_is_bounded() {
        let rate = Rate {
            burst: 1e9,
            per_second: 1e-9,
        };
        let limit = RateLimit::new(rate, rate);
        for number in 0..3_000_u32 {
            assert!(limit.take(Some(IpAddr::from(number.to_be_bytes()))).is_ok());
        }
        assert!(limit.buckets.lock().unwrap().each.len() <= ADDRESSES);
    }
}
