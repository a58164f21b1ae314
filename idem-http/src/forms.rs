//! Bodies of forms, without what a client may write in another way when it tries again.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};

use crate::media;

/// The longest boundary (RFC 2046, 5.1.1).
const MAX_BOUNDARY_BYTES: usize = 70;

/// Returns the decoded pairs of a form, or the parts of a `multipart` body without its boundary, each
/// with its length. `None` for every other body, and for one that readers may divide in different
/// ways: it counts as it is written.
pub(crate) fn canonical(headers: &HeaderMap, body: &[u8]) -> Option<Vec<u8>> {
    if media::is_encoded(headers) {
        return None;
    }
    if media::is_form(headers) {
        return pairs(body);
    }
    parts(body, boundary(headers)?)
}

fn push(list: &mut Vec<u8>, text: &[u8]) {
    list.extend_from_slice(&(text.len() as u64).to_be_bytes());
    list.extend_from_slice(text);
}

/// Decodes byte by byte: a reader that takes two bytes outside of UTF-8 for the same one is not
/// followed. `None` where two digits do not follow a `%`.
fn pairs(body: &[u8]) -> Option<Vec<u8>> {
    let mut list = Vec::with_capacity(body.len());
    let mut text = Vec::new();
    for pair in body
        .split(|byte| *byte == b'&')
        .filter(|pair| !pair.is_empty())
    {
        let mut sides = pair.splitn(2, |byte| *byte == b'=');
        for _ in 0..2 {
            decode(sides.next().unwrap_or_default(), &mut text)?;
            push(&mut list, &text);
        }
    }
    Some(list)
}

fn decode(encoded: &[u8], text: &mut Vec<u8>) -> Option<()> {
    let digit = |byte: u8| u8::try_from(char::from(byte).to_digit(16)?).ok();
    let mut bytes = encoded.iter().copied();
    text.clear();
    while let Some(byte) = bytes.next() {
        text.push(match byte {
            b'+' => b' ',
            b'%' => (digit(bytes.next()?)? << 4) | digit(bytes.next()?)?,
            byte => byte,
        });
    }
    Some(())
}

/// Returns the boundary, if the type has exactly one, in a form that every reader takes for the same.
fn boundary(headers: &HeaderMap) -> Option<&[u8]> {
    let mut types = headers
        .get_all(CONTENT_TYPE)
        .iter()
        .map(HeaderValue::as_bytes);
    let (Some(value), None) = (types.next(), types.next()) else {
        return None;
    };
    let mut parameters = value.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let essence = parameters.next()?;
    if !essence.get(..10)?.eq_ignore_ascii_case(b"multipart/") {
        return None;
    }
    let mut boundaries = parameters.filter(|parameter| {
        let name = parameter.get(..8);
        name.is_some_and(|name| name.eq_ignore_ascii_case(b"boundary"))
    });
    let (Some(only), None) = (boundaries.next(), boundaries.next()) else {
        return None;
    };
    let value = only[8..].strip_prefix(b"=")?;
    let quoted = value
        .strip_prefix(b"\"")
        .and_then(|value| value.strip_suffix(b"\""));
    let value = quoted.unwrap_or(value);
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=?".contains(byte);
    let fits = (1..=MAX_BOUNDARY_BYTES).contains(&value.len()) && value.iter().all(is_plain);
    fits.then_some(value)
}

/// Divides a body at its boundary. Nothing may stand before the first delimiter or after the last,
/// and the boundary nowhere else, so that a reader that is less strict sees the same parts.
fn parts(body: &[u8], boundary: &[u8]) -> Option<Vec<u8>> {
    let mut list = Vec::with_capacity(body.len());
    let mut rest = body.strip_prefix(b"--")?.strip_prefix(boundary)?;
    loop {
        rest = match rest {
            [b'\r', b'\n', rest @ ..] => rest,
            b"--" | b"--\r\n" => return Some(list),
            _ => return None,
        };
        let end = rest
            .windows(boundary.len())
            .position(|text| text == boundary)?;
        let part = rest[..end].strip_suffix(b"--")?;
        // A part without headers may be empty.
        if !part.is_empty() {
            part.strip_suffix(b"\r\n")?;
        }
        push(&mut list, part);
        rest = &rest[end + boundary.len()..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: &'static str, body: &str) -> Option<Vec<u8>> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        canonical(&headers, body.as_bytes())
    }

    #[test]
    fn pairs_count_decoded_and_in_their_order() {
        let form = |body| of("application/x-www-form-urlencoded; charset=utf-8", body);
        let base = form("a=x+y&b=%2B%26&c");
        assert_eq!(base, form("%61=x%20y&&b=%2b%26&c="));
        for other in [
            "b=%2B%26&a=x+y&c",
            "a=x+y&b=+%26&c",
            "a=x+y%26b=%2B%26&c",
            "a=x+y&b=%2B%26",
        ] {
            assert_ne!(base, form(other), "{other}");
        }
        assert_ne!(form("a=%ff"), form("a=%fe"));
        for malformed in ["a=%", "a=%f", "a=%fg", "%=a"] {
            assert_eq!(form(malformed), None, "{malformed}");
        }
    }

    #[test]
    fn parts_count_without_their_boundary() {
        const BODY: &str = "--X\r\nname: a\r\n\r\n1\r\n--X\r\nname: b\r\n\r\n\r\n--X--\r\n";
        let with = |boundary: &str| BODY.replace('X', boundary);
        let base = of("multipart/form-data; boundary=abc", &with("abc"));
        assert!(base.is_some());
        for (kind, boundary) in [
            ("Multipart/Mixed; charset=utf-8; BOUNDARY=\"d:e\"", "d:e"),
            ("multipart/form-data;boundary=----abcd", "----abcd"),
        ] {
            assert_eq!(of(kind, &with(boundary)), base, "{kind}");
        }
        let of = |body: &str| of("multipart/form-data; boundary=abc", body);
        assert_eq!(of(with("abc").trim_end()), base);
        let (moved, other) = ("1\r\n\r\n--abc", "2\r\n--abc");
        for different in [moved, other] {
            assert_ne!(
                of(&with("abc").replace("1\r\n--abc", different)),
                base,
                "{different}"
            );
        }
    }

    #[test]
    fn a_body_that_readers_may_divide_in_different_ways_counts_as_it_is_written() {
        let usual = "multipart/form-data; boundary=abc";
        for (kind, body) in [
            (usual, "preamble\r\n--abc\r\n\r\n1\r\n--abc--"),
            (usual, "--abc\r\n\r\n1\r\n--abc--\r\nepilogue"),
            (usual, "--abc\r\n\r\n1\r\n--abc"),
            (usual, "--abc \r\n\r\n1\r\n--abc--"),
            (usual, "--abc\r\n\r\n1\n--abc--"),
            (usual, "--abc\r\n\r\n1\r\n--abcd\r\n2\r\n--abc--"),
            (usual, "--abc\r\n\r\nabc\r\n--abc--"),
            (usual, ""),
            ("multipart/form-data", "--\r\n\r\n1\r\n----"),
            ("multipart/form-data; boundary=abc; boundary=abc", "--abc--"),
            (
                "multipart/form-data; boundary=a; boundary*=utf-8''b",
                "--a--",
            ),
            ("multipart/form-data; boundary=\"a;b\"", "--a;b--"),
            ("text/plain; boundary=abc", "--abc--"),
        ] {
            assert_eq!(of(kind, body), None, "{kind} {body:?}");
        }
    }

    /// Bodies of 2 MiB, the default limit.
    #[test]
    fn hostile_bodies_take_no_more_than_a_few_times_their_size() {
        let many = format!("{}--a--", "--a\r\n".repeat(400_000));
        let list = of("multipart/form-data; boundary=a", &many).unwrap();
        assert!(list.len() < 4 * many.len());
        let like = format!(
            "--{0}\r\n{1}",
            "a".repeat(70),
            "a".repeat(69).repeat(30_000)
        );
        let kind = concat!(
            "multipart/form-data; boundary=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        );
        assert_eq!(of(kind, &like), None);
    }
}
