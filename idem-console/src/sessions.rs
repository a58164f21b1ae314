//! [`Sessions`]: who has logged in.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use idem_core::Result;
use tokio::time::Instant;

use crate::secret::{digest, hexadecimal, random};

/// How long a session lasts at most.
pub(crate) const LONGEST: Duration = Duration::from_secs(8 * 60 * 60);
/// How long a session lasts without a request.
const IDLE: Duration = Duration::from_secs(30 * 60);
/// Most sessions. A further one ends the one that was used least recently.
const MOST: usize = 128;

/// The sessions of this process, by the digest of their ids: a comparison of digests tells nobody
/// an id.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<[u8; 32], Session>>);

struct Session {
    who: String,
    address: Option<IpAddr>,
    began: Instant,
    used: Instant,
}

impl Session {
    fn is_over(&self, now: Instant) -> bool {
        now - self.began >= LONGEST || now - self.used >= IDLE
    }
}

impl Sessions {
    /// Begins a session, which counts only from this address. Returns its id.
    pub(crate) fn begin(&self, who: String, address: Option<IpAddr>) -> Result<String> {
        let id = hexadecimal(&random()?);
        let now = Instant::now();
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, session| !session.is_over(now));
        if sessions.len() >= MOST {
            let oldest = sessions.iter().min_by_key(|(_, session)| session.used);
            if let Some(id) = oldest.map(|(id, _)| *id) {
                sessions.remove(&id);
            }
        }
        let session = Session {
            who,
            address,
            began: now,
            used: now,
        };
        sessions.insert(digest(&id), session);
        Ok(id)
    }

    /// Returns whose session this is, and makes it last, if the request is one of a person.
    pub(crate) fn who(&self, id: &str, address: Option<IpAddr>, is_used: bool) -> Option<String> {
        let now = Instant::now();
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let session = sessions.get_mut(&digest(id))?;
        if session.is_over(now) || session.address != address {
            return None;
        }
        if is_used {
            session.used = now;
        }
        Some(session.who.clone())
    }

    pub(crate) fn end(&self, id: &str) {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.remove(&digest(id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST));

    #[tokio::test(start_paused = true)]
    async fn a_session_ends_without_requests_and_after_eight_hours() {
        let sessions = Sessions::default();
        let id = sessions.begin("console".to_owned(), HERE).unwrap();
        for _ in 0..(LONGEST.as_secs() / IDLE.as_secs() * 2 - 1) {
            tokio::time::advance(IDLE / 2).await;
            assert_eq!(sessions.who(&id, HERE, true).as_deref(), Some("console"));
        }
        tokio::time::advance(IDLE / 2).await;
        assert_eq!(sessions.who(&id, HERE, true), None);

        let id = sessions.begin("console".to_owned(), HERE).unwrap();
        tokio::time::advance(IDLE / 2).await;
        assert!(sessions.who(&id, HERE, false).is_some());
        tokio::time::advance(IDLE / 2).await;
        assert_eq!(sessions.who(&id, HERE, true), None);
    }

    #[tokio::test]
    async fn a_session_belongs_to_an_address_and_ends_on_request() {
        let sessions = Sessions::default();
        let id = sessions.begin("console".to_owned(), HERE).unwrap();
        let elsewhere = Some(IpAddr::from([10, 0, 0, 1]));
        assert_eq!(sessions.who(&id, elsewhere, true), None);
        assert_eq!(sessions.who("0", HERE, true), None);
        assert!(sessions.who(&id, HERE, true).is_some());
        sessions.end(&id);
        assert_eq!(sessions.who(&id, HERE, true), None);
    }

    #[tokio::test]
    async fn the_number_of_sessions_is_bounded() {
        let sessions = Sessions::default();
        let first = sessions.begin("console".to_owned(), HERE).unwrap();
        tokio::time::sleep(Duration::from_millis(2)).await;
        for _ in 0..MOST {
            sessions.begin("console".to_owned(), HERE).unwrap();
        }
        assert_eq!(sessions.who(&first, HERE, true), None);
        assert_eq!(sessions.0.lock().unwrap().len(), MOST);
    }
}
