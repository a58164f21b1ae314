//! What every request passes, and every answer gets.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, HOST, ORIGIN, RETRY_AFTER, WWW_AUTHENTICATE};
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use crate::console::Console;
use crate::identity::{Identity, Stranger};
use crate::options::{Options, Proof};
use crate::pages::{Problem, login_page};

/// How long a page may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Nothing from elsewhere, nothing in line, no frames.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
     img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

const HEADERS: [(&str, &str); 8] = [
    ("content-security-policy", POLICY),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
    ("x-robots-tag", "noindex"),
];

/// Sets the headers of every answer, and makes a page of a [`Problem`].
pub(crate) async fn finish(
    State(console): State<Arc<Console>>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = next.run(request).await;
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        let page = problem.page(&console);
        let (parts, _) = response.into_parts();
        response = Response::from_parts(parts, page);
        let html = HeaderValue::from_static("text/html; charset=utf-8");
        response.headers_mut().insert(CONTENT_TYPE, html);
    }
    for (name, value) in HEADERS {
        let name = HeaderName::from_static(name);
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Ends requests that take too long, be it to send or to answer.
pub(crate) async fn timeout(request: Request, next: Next) -> Response {
    let answer = tokio::time::timeout(TIMEOUT, next.run(request)).await;
    answer.unwrap_or_else(|_| {
        let text = "The store or your connection took longer than 30 seconds.";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, text).into_response()
    })
}

/// Refuses requests for another host's name, and forms of other sites.
pub(crate) async fn origin(
    State(console): State<Arc<Console>>,
    request: Request,
    next: Next,
) -> Response {
    let host = request.headers().get(HOST);
    let host = host.and_then(|host| host.to_str().ok());
    let host = host.or(request.uri().authority().map(Authority::as_str));
    if !is_own_host(host, &console.options) {
        let text = "The console does not go by this name. See `Options::with_host`.";
        return Problem::new(StatusCode::MISDIRECTED_REQUEST, text).into_response();
    }
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    if !is_read && is_cross_site(request.headers(), host) {
        let text = "The request comes from a page of another site.";
        return Problem::new(StatusCode::FORBIDDEN, text).into_response();
    }
    next.run(request).await
}

/// A name may have been made to point here (DNS rebinding); digits cannot.
fn is_own_host(host: Option<&str>, options: &Options) -> bool {
    let is_local = options.address.ip().to_canonical().is_loopback();
    if !is_local && options.hosts.is_empty() {
        return true;
    }
    let authority = host.and_then(|host| host.parse::<Authority>().ok());
    let Some(authority) = authority else {
        return false;
    };
    let name = authority.host().trim_end_matches('.').to_ascii_lowercase();
    let digits = name.trim_start_matches('[').trim_end_matches(']');
    digits.parse::<IpAddr>().is_ok() || name == "localhost" || options.hosts.contains(&name)
}

/// Browsers tell the site of the page that sends. `Origin` is `null` under our referrer policy, so
/// it counts only where it names somebody.
fn is_cross_site(headers: &HeaderMap, host: Option<&str>) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        return !matches!(site.as_bytes(), b"same-origin" | b"none");
    }
    let origin = headers.get(ORIGIN).and_then(|origin| origin.to_str().ok());
    match origin.filter(|origin| *origin != "null") {
        None => false,
        Some(origin) => origin.split_once("://").map(|(_, host)| host) != host,
    }
}

/// Lets requests of known people through, with their [`Identity`].
pub(crate) async fn authenticate(
    State(console): State<Arc<Console>>,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    // A stream renews itself; only what a person does makes a session last.
    let is_used = parts.uri.path() != console.path("events");
    match Identity::of(&parts, &console, is_used) {
        Ok(identity) => {
            parts.extensions.insert(identity);
            next.run(Request::from_parts(parts, body)).await
        }
        Err(stranger) => refuse(&console, &parts, &stranger),
    }
}

fn refuse(console: &Console, parts: &http::request::Parts, stranger: &Stranger) -> Response {
    let client = crate::client::Client::of(parts, &console.options);
    match stranger {
        Stranger::LoggedOut => {
            let mut response = login_page(console, StatusCode::UNAUTHORIZED, None);
            let challenge = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
            response
        }
        Stranger::WrongToken => {
            tracing::warn!(address = ?client.address, "refused: a wrong token");
            // The next request meets the limit.
            let _ = console.logins.take(client.address);
            let text = "This is not the token.";
            Problem::new(StatusCode::UNAUTHORIZED, text).into_response()
        }
        Stranger::TooOften(wait) => too_often(*wait),
        Stranger::Remote => {
            tracing::warn!(address = ?client.address, "refused: not of this machine");
            let text =
                "Without a token or a proxy's header, the console answers only this machine.";
            Problem::new(StatusCode::FORBIDDEN, text).into_response()
        }
        Stranger::Unproxied => {
            tracing::warn!(address = ?client.address, "refused: no proxy has named the user");
            let header = match console.options.access.as_ref().map(|access| &access.0) {
                Some(Proof::Header(name)) => name.as_str(),
                _ => "",
            };
            let text = format!(
                "The console is reached through a proxy that sets the header {header} to your name."
            );
            Problem::new(StatusCode::UNAUTHORIZED, text).into_response()
        }
    }
}

/// Answers that something was tried too often.
pub(crate) fn too_often(wait: Duration) -> Response {
    let seconds = wait.as_secs() + 1;
    let text = format!("That was too often. Try again in {seconds} s.");
    let mut response = Problem::new(StatusCode::TOO_MANY_REQUESTS, text).into_response();
    response
        .headers_mut()
        .insert(RETRY_AFTER, HeaderValue::from(seconds));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_loopback_only_own_names_are_answered() {
        let options = Options::new().with_host("Console.example");
        for host in [
            "localhost:7433",
            "LOCALHOST",
            "127.0.0.1:7433",
            "[::1]:7433",
            "console.example:80",
        ] {
            assert!(is_own_host(Some(host), &options), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil",
            "",
        ] {
            assert!(!is_own_host(Some(host), &options), "{host}");
        }
        assert!(!is_own_host(None, &options));
        let public = Options::new().with_address("0.0.0.0:80".parse().unwrap());
        assert!(is_own_host(Some("anything.example"), &public));
        assert!(!is_own_host(
            Some("evil.example"),
            &public.with_host("a.example")
        ));
    }

    #[test]
    fn forms_of_other_sites_are_refused() {
        let headers = |name: &'static str, value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_static(value));
            headers
        };
        let is_refused = |name, value| is_cross_site(&headers(name, value), Some("a:1"));
        for site in ["cross-site", "same-site"] {
            assert!(is_refused("sec-fetch-site", site));
        }
        assert!(!is_refused("sec-fetch-site", "same-origin"));
        assert!(is_refused("origin", "http://b:1"));
        assert!(!is_refused("origin", "http://a:1"));
        assert!(!is_refused("origin", "null"));
        assert!(!is_cross_site(&HeaderMap::new(), Some("a:1")));
    }
}
