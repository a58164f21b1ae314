//! [`PublicUrl`]: the content that Twilio signs.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use http::uri::Scheme;
use http::{HeaderMap, Request, Uri, header};
use idem_core::{Bytes, Error, Result};
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest, Sha256};

use crate::Rejection;
use crate::content::Content;

/// The URL of a webhook as Twilio knows it, without its query: servers behind proxies see another.
///
/// Twilio signs the URL and, after it, the names and values of the form, sorted. Some of its
/// systems sign the URL with its port and some without, so both are tried, as Twilio's own
/// libraries do: <https://www.twilio.com/docs/usage/webhooks/webhooks-security> and
/// <https://github.com/twilio/twilio-python/blob/main/twilio/request_validator.py>. Some escape the
/// query otherwise than they send it, for which
/// <https://github.com/twilio/twilio-node/blob/main/src/webhooks/webhooks.ts> tries two more forms.
#[derive(Debug, Clone)]
pub(crate) struct PublicUrl {
    with_port: String,
    without_port: String,
}

impl PublicUrl {
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let refused = Error::invalid_input;
        if url.contains(['?', '#']) {
            let message = "give the URL of the webhook without query and fragment; the query is \
                           that of each request";
            return Err(refused(message));
        }
        let uri: Uri = url.parse().map_err(|_| refused("the URL is malformed"))?;
        let default_port = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => 443,
            Some(scheme) if *scheme == Scheme::HTTP => 80,
            _ => return Err(refused("the URL begins with neither https:// nor http://")),
        };
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let port = uri.port_u16();
        let host = match port {
            Some(_) => authority
                .rsplit_once(':')
                .map_or(authority, |(host, _)| host),
            None => authority,
        };
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        let path = rest.strip_prefix(authority).filter(|_| !host.is_empty());
        let path = path.ok_or_else(|| refused("the URL has no host"))?;
        let port = port.unwrap_or(default_port);
        Ok(Self {
            with_port: format!("{scheme}://{host}:{port}{path}"),
            without_port: format!("{scheme}://{host}{path}"),
        })
    }

    /// Returns the writings of the signed content.
    ///
    /// A body that is no form counts only by `bodySHA256` in the query, which Twilio adds for it.
    /// Where query or form has that, it counts for every body: else such a delivery would pass
    /// again without its body, or as a form.
    pub(crate) fn contents<'a>(
        &'a self,
        request: &'a Request<Bytes>,
    ) -> Result<Vec<Content<'a>>, Rejection> {
        let (query, body) = (request.uri().query(), request.body());
        let is_form = is_form(request.headers());
        let form = if is_form { sorted(body) } else { String::new() };
        let text = query.unwrap_or_default();
        // Nothing in the signed text separates query and form, so a digest counts in both.
        let signed = query.map_or_else(|| form.clone(), |query| format!("?{query}{form}"));
        let signed = signed.split_once('?').map_or("", |(_, query)| query);
        let is_covered = digests(signed).next().is_some() || !is_form && !body.is_empty();
        if is_covered && !covers(text, body)? {
            return Err(Rejection::WrongSignature);
        }
        let mut queries = query.map_or_else(|| vec![String::new()], writings);
        queries.dedup();
        let mut contents = Vec::with_capacity(2 * queries.len());
        for query in queries {
            for url in [&self.without_port, &self.with_port] {
                let mut content = Content::default();
                content.push(url.as_bytes());
                content.push(format!("{query}{form}").into_bytes());
                contents.push(content);
            }
        }
        Ok(contents)
    }
}

/// The characters that a URL escapes in a query: <https://url.spec.whatwg.org/#special-query-percent-encode-set>.
const URL: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'<')
    .add(b'>')
    .add(b'\'');

/// The characters that Node's `querystring` escapes.
const NODE: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Returns the query as it was sent, as a URL escapes it, and as Node's `querystring` does. Their
/// fields are the same.
fn writings(query: &str) -> Vec<String> {
    let escape = |text: &str| utf8_percent_encode(text, NODE).to_string();
    let pairs = form_urlencoded::parse(query.as_bytes());
    let pairs = pairs.map(|(name, value)| format!("{}={}", escape(&name), escape(&value)));
    let pairs: Vec<_> = pairs.collect();
    let url = utf8_percent_encode(query, URL);
    vec![
        format!("?{query}"),
        format!("?{url}"),
        format!("?{}", pairs.join("&")),
    ]
}

fn is_form(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()?.split(';').next());
    kind.is_some_and(|kind| {
        kind.trim()
            .eq_ignore_ascii_case("application/x-www-form-urlencoded")
    })
}

/// Returns the names and values of a form, sorted, without values that occur again.
fn sorted(form: &[u8]) -> String {
    let mut fields = BTreeMap::<_, BTreeSet<_>>::new();
    for (name, value) in form_urlencoded::parse(form) {
        fields.entry(name).or_default().insert(value);
    }
    let pairs = fields
        .iter()
        .flat_map(|(name, values)| values.iter().map(move |value| [name, value]));
    pairs.flatten().map(AsRef::<str>::as_ref).collect()
}

fn digests(query: &str) -> impl Iterator<Item = Cow<'_, str>> {
    form_urlencoded::parse(query.as_bytes())
        .filter_map(|(name, value)| (name == "bodySHA256").then_some(value))
}

/// Returns whether the signed query has the digest of this body.
fn covers(query: &str, body: &[u8]) -> Result<bool, Rejection> {
    let mut digests = digests(query);
    let digest = match (digests.next(), digests.next()) {
        (Some(digest), None) => base16ct::mixed::decode_vec(digest.as_bytes()),
        (None, _) => return Err(Rejection::Unsigned),
        _ => return Err(Rejection::MalformedSignature),
    };
    let digest = digest.map_err(|_| Rejection::MalformedSignature)?;
    Ok(digest == Sha256::digest(body).as_slice())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_two_writings() {
        for (url, expected) in [
            (
                "https://a.example/x",
                ["https://a.example/x", "https://a.example:443/x"],
            ),
            (
                "http://a.example",
                ["http://a.example", "http://a.example:80"],
            ),
            (
                "https://a.example:8443/x",
                ["https://a.example/x", "https://a.example:8443/x"],
            ),
            (
                "https://[::1]:1/x",
                ["https://[::1]/x", "https://[::1]:1/x"],
            ),
            ("https://s/", ["https://s/", "https://s:443/"]),
            (
                "https://u:p@a.example/",
                ["https://u:p@a.example/", "https://u:p@a.example:443/"],
            ),
        ] {
            let parsed = PublicUrl::parse(url).unwrap();
            assert_eq!([parsed.without_port, parsed.with_port], expected);
        }
        for bad in [
            "",
            "/x",
            "ftp://a.example",
            "https://a.example/?x",
            "https:///x",
            "https://a.example/#rc=2",
        ] {
            assert!(PublicUrl::parse(bad).is_err(), "{bad}");
        }
    }
}
