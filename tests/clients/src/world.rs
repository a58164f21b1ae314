//! [`World`]: a handler by plan, the layer or receiver in front of it, and the wire in front of that.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use futures_util::StreamExt;
use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use idem_core::{Idempotency, MemoryStore, Work};
use idem_http::IdempotencyLayer;
use idem_webhooks::{Event, Receiver};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;

use crate::plan::{Fault, Plan, Planned};

/// A handler by plan, the layer or receiver in front of it, and the wire in front of that.
#[derive(Debug)]
pub(crate) struct World {
    plan: Plan,
    counts: watch::Sender<Counts>,
}

/// How far a world got.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Counts {
    /// The requests that are work.
    requests: usize,
    /// How often the handler ran.
    runs: usize,
    /// The events that the client let go.
    events: usize,
}

/// How a request is called in the plan (a tool, a method or a path), and the id of its call.
#[derive(Debug, Clone)]
struct Called {
    name: String,
    id: Value,
    is_work: bool,
}

/// How late a request arrives.
const DELAY: Duration = Duration::from_millis(300);

impl World {
    pub(crate) fn new(plan: Plan) -> Self {
        Self {
            plan,
            counts: watch::Sender::default(),
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        *self.counts.borrow()
    }

    pub(crate) fn next(&self) {
        self.counts.send_modify(|counts| counts.events += 1);
    }

    /// Counts, and returns the number before.
    fn count(&self, of: impl Fn(&mut Counts) -> &mut usize) -> usize {
        let mut before = 0;
        self.counts.send_modify(|counts| {
            before = *of(counts);
            *of(counts) += 1;
        });
        before
    }

    async fn until(&self, reached: impl Fn(&Counts) -> bool + Send + Sync) {
        // The sender lives as long as this world, so that there is no error.
        let _ = self.counts.subscribe().wait_for(|now| reached(now)).await;
    }

    pub(crate) fn router(self: &Arc<Self>) -> idem_core::Result<Router> {
        let router = match self.plan.receiver()? {
            Some(receiver) => Router::new().fallback(deliver).layer(Extension(receiver)),
            None => {
                let scope = |_: &http::request::Parts| Some("clients".to_owned());
                let layer = IdempotencyLayer::new(Idempotency::new(MemoryStore::new()), scope);
                let layer = layer.with_policy(self.plan.policy()?);
                Router::new().fallback(handle).layer(layer)
            }
        };
        let router = router.layer(from_fn_with_state(Arc::clone(self), wire));
        Ok(router.with_state(Arc::clone(self)))
    }

    fn called(&self, request: &http::request::Parts, body: &[u8]) -> Called {
        let call: Value = serde_json::from_slice(body).unwrap_or_default();
        let path = || format!("{} {}", request.method, request.uri.path());
        let tool = call["params"]["name"].as_str();
        let name = tool.or(call["method"].as_str());
        let name = name.map_or_else(path, str::to_owned);
        let is_notification = call.get("method").is_some() && call.get("id").is_none();
        Called {
            is_work: !is_notification
                && request.method != Method::GET
                && request.method != Method::HEAD
                && !self.plan.free.contains_key(&name),
            id: call["id"].clone(),
            name,
        }
    }

    /// Returns the answer of this run.
    async fn answer(self: Arc<Self>, run: usize) -> Option<Planned> {
        let answers = &self.plan.answers;
        let answer = answers.get(run).or(answers.last())?.clone();
        self.until(|counts| counts.requests >= answer.requests)
            .await;
        Some(answer)
    }
}

/// Loses, repeats and delays.
async fn wire(State(world): State<Arc<World>>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, usize::MAX).await else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let called = world.called(&parts, &body);
    let is_work = called.is_work;
    parts.extensions.insert(called);
    let request = || Request::from_parts(parts.clone(), Body::from(body.clone()));
    if !is_work {
        return next.run(request()).await;
    }
    let number = world.count(|counts| &mut counts.requests);
    let fault = world.plan.wire.get(number).copied().flatten();
    if let Some(Fault::Delay) = fault {
        tokio::time::sleep(DELAY).await;
    }
    let response = next.clone().run(request()).await;
    match fault {
        None | Some(Fault::Delay) => response,
        Some(Fault::Repeat) => {
            let _ = to_bytes(response.into_body(), usize::MAX).await;
            next.run(request()).await
        }
        Some(Fault::Lose) => {
            let _ = to_bytes(response.into_body(), usize::MAX).await;
            // Ends the task of the connection, and with it the connection, without a message.
            std::panic::resume_unwind(Box::new("lost"));
        }
    }
}

/// Does the work, or what is none.
async fn handle(State(world): State<Arc<World>>, Extension(called): Extension<Called>) -> Response {
    if called.is_work {
        let run = world.count(|counts| &mut counts.runs);
        let answer = Arc::clone(&world).answer(run).await.unwrap_or_default();
        return answer.response(&world, &called.id, run + 1);
    }
    match world.plan.free.get(&called.name) {
        Some(answer) => answer.response(&world, &called.id, 0),
        None if called.name.starts_with("GET ") => StatusCode::METHOD_NOT_ALLOWED.into_response(),
        None => StatusCode::ACCEPTED.into_response(),
    }
}

/// Receives a webhook.
async fn deliver(
    State(world): State<Arc<World>>,
    Extension(receiver): Extension<Receiver>,
    request: http::Request<Body>,
) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
    let request = http::Request::from_parts(parts, body);
    let handler = async |_: Event, _: Work| {
        let run = world.count(|counts| &mut counts.runs);
        let answer = Arc::clone(&world).answer(run).await;
        match answer.and_then(|answer| answer.status) {
            Some(status) if status >= 400 => Err(status),
            _ => Ok(()),
        }
    };
    receiver
        .receive(&request, handler)
        .await
        .response()
        .map(Body::from)
}

impl Planned {
    fn response(&self, world: &Arc<World>, id: &Value, run: usize) -> Response {
        let filled = |value: &Value| {
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            let text = text.replace("\"$id\"", &id.to_string());
            text.replace("$run", &run.to_string())
        };
        let (kind, body) = match self.events.as_slice() {
            [] if self.body.is_null() => ("text/plain", Body::empty()),
            [] => ("application/json", filled(&self.body).into()),
            events => {
                let events: Vec<_> = events.iter().map(filled).collect();
                let world = Arc::clone(world);
                let events = futures_util::stream::iter(events.into_iter().enumerate());
                let events = events.then(move |(number, event)| {
                    let world = Arc::clone(&world);
                    async move {
                        world.until(|counts| counts.events >= number).await;
                        Ok::<_, std::convert::Infallible>(Bytes::from(format!("data: {event}\n\n")))
                    }
                });
                ("text/event-stream", Body::from_stream(events))
            }
        };
        let mut response = Response::new(body);
        let status = self
            .status
            .and_then(|status| StatusCode::from_u16(status).ok());
        *response.status_mut() = status.unwrap_or_default();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        for (name, value) in &self.headers {
            let name = name.parse::<HeaderName>();
            if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
                headers.insert(name, value);
            }
        }
        response
    }
}
