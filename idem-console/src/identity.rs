//! [`Identity`]: who has sent a request.

use std::time::Duration;

use http::HeaderMap;
use http::header::{AUTHORIZATION, COOKIE};
use http::request::Parts;

use crate::client::Client;
use crate::console::Console;
use crate::options::Proof;
use crate::secret::same;

/// The name of the session's cookie.
const SESSION: &str = "idem_console";
/// The name of people who know the token.
pub(crate) const TOKEN_HOLDER: &str = "console";

/// A person who may use the console.
#[derive(Clone)]
pub(crate) struct Identity {
    /// The name under which changes are recorded.
    pub(crate) who: String,
    /// What forms of this person's pages carry, so that no other page's form counts.
    pub(crate) csrf: String,
    /// The session, if there is one.
    pub(crate) session: Option<String>,
    pub(crate) client: Client,
}

/// Why a request has no identity.
pub(crate) enum Stranger {
    /// There is no valid session.
    LoggedOut,
    /// The `Authorization` header has a wrong token.
    WrongToken,
    /// Too many wrong tokens have come.
    TooOften(Duration),
    /// No proxy has set the header.
    Unproxied,
    /// Without access, the request comes from another machine.
    Remote,
}

impl Identity {
    /// Finds out who has sent the request. `is_used` makes a session last.
    pub(crate) fn of(parts: &Parts, console: &Console, is_used: bool) -> Result<Self, Stranger> {
        let client = Client::of(parts, &console.options);
        let identity = |who: String, session: Option<String>| {
            let bound = session.as_deref().unwrap_or(&who);
            Self {
                csrf: console.secret.sign("csrf", bound.as_bytes()),
                who,
                session,
                client,
            }
        };
        match console.options.access.as_ref().map(|access| &access.0) {
            None => {
                let relayed = ["forwarded", "via"];
                let is_relayed = relayed.iter().any(|name| parts.headers.contains_key(*name));
                match client.address.filter(|address| address.is_loopback()) {
                    Some(_) if !is_relayed => Ok(identity("anybody".to_owned(), None)),
                    _ => Err(Stranger::Remote),
                }
            }
            Some(Proof::Header(name)) => {
                let mut values = parts.headers.get_all(name).iter();
                let who = values.next().and_then(|value| value.to_str().ok());
                // Two values: the proxy has let one of the browser's through.
                let is_one = values.next().is_none();
                let who = who.map(str::trim).filter(|who| is_name(who));
                let who = who.filter(|_| client.is_proxy && is_one);
                let who = who.ok_or(Stranger::Unproxied)?;
                Ok(identity(who.to_owned(), None))
            }
            Some(Proof::Token(token)) => {
                if let Some(sent) = bearer(&parts.headers) {
                    // Before the comparison, so that a guess in the meantime tells nothing.
                    let limit = console.logins.check(client.address);
                    limit.map_err(Stranger::TooOften)?;
                    return match same(sent, token) {
                        true => Ok(identity(TOKEN_HOLDER.to_owned(), None)),
                        false => Err(Stranger::WrongToken),
                    };
                }
                let session = cookie(&parts.headers).ok_or(Stranger::LoggedOut)?;
                let who = console.sessions.who(session, client.address, is_used);
                let who = who.ok_or(Stranger::LoggedOut)?;
                Ok(identity(who, Some(session.to_owned())))
            }
        }
    }

    /// Returns whether the session has ended meanwhile.
    pub(crate) fn is_over(&self, console: &Console) -> bool {
        self.session.as_ref().is_some_and(|session| {
            let address = self.client.address;
            console.sessions.who(session, address, false).is_none()
        })
    }
}

/// Returns whether this may name a person in an audit entry.
pub(crate) fn is_name(who: &str) -> bool {
    (1..=200).contains(&who.len()) && !who.chars().any(char::is_control)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then_some(token.trim())
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let values = headers.get_all(COOKIE).iter();
    let mut cookies = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'));
    cookies.find_map(|cookie| {
        let (name, value) = cookie.trim().split_once('=')?;
        (name == SESSION).then_some(value)
    })
}

/// Returns the value of `Set-Cookie` for a session; an empty one ends it.
pub(crate) fn set_cookie(console: &Console, client: &Client, session: &str) -> String {
    let path = console.path("");
    let secure = if client.is_https { "; Secure" } else { "" };
    let end = if session.is_empty() {
        "; Max-Age=0"
    } else {
        ""
    };
    format!("{SESSION}={session}; HttpOnly; SameSite=Strict; Path={path}{secure}{end}")
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::Arc;

    use axum::extract::ConnectInfo;
    use idem_core::MemoryStore;

    use super::*;
    use crate::Options;

    #[test]
    fn without_access_only_this_machine_is_let_in_whatever_host_it_names() {
        let console = Console::new(Arc::new(MemoryStore::new()), Options::new()).unwrap();
        for (peer, header, is_let_in) in [
            (Some("127.0.0.1:9"), "", true),
            (Some("[::1]:9"), "", true),
            (Some("[::ffff:127.0.0.1]:9"), "", true),
            (Some("10.0.0.7:9"), "", false),
            (Some("10.0.0.7:9"), "x-forwarded-for: 127.0.0.1", false),
            (Some("127.0.0.1:9"), "x-forwarded-for: 10.0.0.7", false),
            // A proxy on this machine passes on requests of others, whichever header says so.
            (Some("127.0.0.1:9"), "x-forwarded-for: 10.0.0.7:80", false),
            (Some("127.0.0.1:9"), "x-forwarded-for: é, 10.0.0.7", false),
            (Some("127.0.0.1:9"), "forwarded: for=10.0.0.7", false),
            (Some("127.0.0.1:9"), "via: 1.1 proxy", false),
            (None, "", false),
        ] {
            let mut request = http::Request::get("/").header("host", "127.0.0.1");
            if let Some((name, value)) = header.split_once(": ") {
                request = request.header(name, value);
            }
            let (mut parts, ()) = request.body(()).unwrap().into_parts();
            if let Some(peer) = peer {
                let peer: SocketAddr = peer.parse().unwrap();
                parts.extensions.insert(ConnectInfo(peer));
            }
            let found = Identity::of(&parts, &console, true);
            assert_eq!(found.is_ok(), is_let_in, "{peer:?} {header}");
        }
    }
}
