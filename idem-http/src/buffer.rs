//! Reading a request's body into memory.

use std::error::Error as StdError;

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body::Body as HttpBody;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use idem_core::BoxError;

use crate::ProblemType;
use crate::refusal::Problem;

/// Returns the whole body, or the problem that prevents it.
pub(crate) async fn read<B>(headers: &HeaderMap, body: B, limit: usize) -> Result<Bytes, Problem>
where
    B: HttpBody + Send,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    if announced(headers).is_some_and(|length| crate::body::size_is_over(length, limit)) {
        return Err(too_large(limit));
    }
    match Limited::new(body, limit).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if is_over_a_limit(&*error) => Err(too_large(limit)),
        Err(_) => Err(Problem::new(
            ProblemType::RequestUnreadable,
            "The body ended with an error. Nothing was done; send the request again.",
        )),
    }
}

fn announced(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Whether the error is a limit of this layer or of one around it.
fn is_over_a_limit(error: &(dyn StdError + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.is::<LengthLimitError>() {
            return true;
        }
        next = error.source();
    }
    false
}

pub(crate) fn too_large(limit: usize) -> Problem {
    let detail = format!(
        "A request with an idempotency key has a body of at most {limit} bytes here. Nothing was done."
    );
    Problem::new(ProblemType::RequestTooLarge, detail)
}
