//! How a mutant stores keys and responses.

use idem_core::{Key, Response};

use super::Bug;

/// Returns the key as the mutant stores it.
pub(super) fn key(bug: Bug, key: &Key) -> Vec<String> {
    let parts = [key.scope(), key.operation(), key.id()];
    let each = |change: &dyn Fn(&str) -> String| parts.map(change).to_vec();
    match bug {
        Bug::IgnoresScope => each(&str::to_owned).split_off(1),
        Bug::IgnoresOperation => vec![key.scope().to_owned(), key.id().to_owned()],
        Bug::JoinsParts => vec![parts.concat()],
        Bug::FoldsCase => each(&|part| part.to_lowercase()),
        Bug::TrimsSpaces => each(&|part| part.trim_end_matches(' ').to_owned()),
        Bug::FoldsUnicode => each(&|part| part.replace("e\u{301}", "\u{e9}")),
        Bug::CutsKeys => each(&|part| part.chars().take(200).collect()),
        _ => each(&str::to_owned),
    }
}

/// Returns the response as the mutant stores it.
pub(super) fn response(bug: Bug, response: &Response) -> Response {
    let (mut status, mut headers, mut body) = response.clone().into_parts();
    match bug {
        Bug::LossyBody => body = String::from_utf8_lossy(&body).into_owned().into(),
        Bug::CutsBody => body.truncate(65_535),
        Bug::SortsHeaders => headers.sort(),
        Bug::ClampsStatus => status = status.min(32_767),
        _ => {}
    }
    let bare = Response::new(status, body);
    headers.into_iter().fold(bare, |response, (name, value)| {
        response.with_header(name, value)
    })
}
