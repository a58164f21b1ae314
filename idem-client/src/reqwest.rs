//! The middleware for `reqwest`.

use async_trait::async_trait;
use bytes::Bytes;
use http::{Extensions, Uri};
use reqwest::{Body, Request, Response, ResponseBuilderExt};
use reqwest_middleware::{Error as MiddlewareError, Middleware, Next};

use crate::body::AnswerBody;
use crate::exchange::{Described, Failure, Transport};
use crate::protocol::Placed;
use crate::{Error, IdempotencyClient, Intent};

/// A request with a method of the protocol gets its key, by the [`Intent`] in its extensions
/// (`RequestBuilder::with_extension`). Other requests are passed on.
///
/// Its body is bytes in memory; a stream is refused before anything is sent. The extensions of the
/// response have a [`Delivery`](crate::Delivery). Errors of this crate are found with [`Error::of`];
/// the others are those of the last try.
#[async_trait]
impl Middleware for IdempotencyClient {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        if !self.protocol.guards(request.method()) {
            return next.run(request, extensions).await;
        }
        let intent = extensions.get::<Intent>().cloned();
        let body = bytes_of(&request).map_err(MiddlewareError::middleware)?;
        let url = request.url().clone();
        let uri: Uri = url.as_str().parse().map_err(|error| {
            MiddlewareError::middleware(Error::invalid("the URL is no URI").with_source(error))
        })?;
        let described = Described {
            method: request.method(),
            uri: &uri,
            headers: request.headers(),
            body: &body,
            intent: intent.as_ref(),
        };
        let keyed = Box::pin(self.key(described)).await;
        let sender = Sender {
            request,
            extensions,
            next,
        };
        let keyed = keyed.map_err(MiddlewareError::middleware)?;
        match Box::pin(self.deliver(keyed, sender)).await {
            Ok(response) => with_url(response, url),
            Err(Failure::Transport(error)) => Err(error),
            Err(Failure::Own(error)) => Err(MiddlewareError::middleware(error)),
        }
    }
}

fn bytes_of(request: &Request) -> Result<Bytes, Error> {
    let Some(body) = request.body() else {
        return Ok(Bytes::new());
    };
    let bytes = body.as_bytes().ok_or_else(|| {
        Error::invalid("the body is a stream, which cannot be sent again; collect it into bytes")
    })?;
    Ok(Bytes::copy_from_slice(bytes))
}

/// Makes a `reqwest` response of the answer; only its URL would be lost on the way.
fn with_url(
    response: http::Response<AnswerBody<Body>>,
    url: reqwest::Url,
) -> reqwest_middleware::Result<Response> {
    let (mut parts, body) = response.into_parts();
    let url = parts
        .extensions
        .remove::<FinalUrl>()
        .map_or(url, |url| url.0);
    let mut answer = http::Response::builder()
        .url(url)
        .body(Body::wrap(body))
        .map_err(|error| {
            let message = "the answer could not be taken apart";
            MiddlewareError::middleware(Error::no_answer(message).with_source(error))
        })?;
    *answer.status_mut() = parts.status;
    *answer.version_mut() = parts.version;
    *answer.headers_mut() = parts.headers;
    answer.extensions_mut().extend(parts.extensions);
    Ok(answer.into())
}

/// The URL of an answer, which another one than the request's has after a redirection.
#[derive(Clone)]
struct FinalUrl(reqwest::Url);

/// Sends through the rest of the middleware.
struct Sender<'r> {
    request: Request,
    extensions: &'r mut Extensions,
    next: Next<'r>,
}

impl Transport for Sender<'_> {
    type Body = Body;
    type Error = MiddlewareError;

    async fn send(&mut self, placed: &Placed) -> Result<http::Response<Body>, MiddlewareError> {
        let mut request = self.request.try_clone().ok_or_else(|| {
            MiddlewareError::middleware(Error::invalid("the body cannot be sent again"))
        })?;
        placed.apply(request.headers_mut());
        if let Some(body) = &placed.body {
            *request.body_mut() = Some(body.clone().into());
        }
        let response = self.next.clone().run(request, self.extensions).await?;
        let url = FinalUrl(response.url().clone());
        let mut response = http::Response::from(response);
        response.extensions_mut().insert(url);
        Ok(response)
    }

    /// What the connection or the clock did is sent again: the key makes that safe. Errors of other
    /// middleware, of redirections and of the request itself come again.
    fn is_retryable(&self, error: &MiddlewareError) -> bool {
        match error {
            MiddlewareError::Middleware(_) => false,
            MiddlewareError::Reqwest(error) => {
                let is_lasting = error.is_builder() || error.is_redirect() || error.is_decode();
                let is_passing = error.is_timeout() || error.is_connect() || error.is_request();
                !is_lasting && (is_passing || error.is_body())
            }
        }
    }
}
