//! An actix application behind the middleware, and its responses.

use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use actix_web::body::{BoxBody, to_bytes};
use actix_web::dev::Service;
use actix_web::{Error, HttpRequest, HttpResponse, HttpServer, test, web};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use idem_actix::IdempotencyMiddleware;
use idem_http::IdempotencyLayer;
use tokio::sync::{mpsc, oneshot};

pub(crate) use crate::shared::*;

/// A request in the handler.
pub(crate) struct Received {
    pub(crate) request: HttpRequest,
    pub(crate) payload: web::Payload,
}

/// What a handler of these tests answers with.
pub(crate) trait Reply {
    fn reply(self) -> Result<HttpResponse, Error>;
}

impl Reply for Result<HttpResponse, Error> {
    fn reply(self) -> Self {
        self
    }
}

impl Reply for HttpResponse {
    fn reply(self) -> Result<HttpResponse, Error> {
        Ok(self)
    }
}

impl<T: Into<String>> Reply for (StatusCode, T) {
    fn reply(self) -> Result<HttpResponse, Error> {
        let status = actix_web::http::StatusCode::from_u16(self.0.as_u16()).unwrap();
        Ok(HttpResponse::build(status).body(self.1.into()))
    }
}

impl Reply for &'static str {
    fn reply(self) -> Result<HttpResponse, Error> {
        (StatusCode::OK, self).reply()
    }
}

impl Reply for String {
    fn reply(self) -> Result<HttpResponse, Error> {
        (StatusCode::OK, self).reply()
    }
}

impl Reply for () {
    fn reply(self) -> Result<HttpResponse, Error> {
        (StatusCode::OK, "").reply()
    }
}

/// A request for the application's thread, and where its answer goes.
type Job = (Request<Full<Bytes>>, oneshot::Sender<Answer>);

/// A service that counts what it handles. It runs on a thread of its own, as on a worker.
#[derive(Clone)]
pub(crate) struct App {
    jobs: mpsc::UnboundedSender<Job>,
    serve: Arc<dyn Fn() -> SocketAddr + Send + Sync>,
    runs: Arc<AtomicUsize>,
}

impl App {
    pub(crate) fn new<F, Fut, R>(layer: IdempotencyLayer, handler: F) -> Self
    where
        F: Fn(Received) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = R> + 'static,
        R: Reply + 'static,
    {
        Self::of(IdempotencyMiddleware::from_layer(layer), handler)
    }

    pub(crate) fn of<F, Fut, R>(middleware: IdempotencyMiddleware, handler: F) -> Self
    where
        F: Fn(Received) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = R> + 'static,
        R: Reply + 'static,
    {
        let runs = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&runs);
        let counted = move |request: HttpRequest, payload: web::Payload| {
            count.fetch_add(1, Ordering::SeqCst);
            let handling = handler(Received { request, payload });
            async move { handling.await.reply() }
        };
        let app = move || {
            actix_web::App::new()
                .wrap(middleware.clone())
                .default_service(web::to(counted.clone()))
        };
        let (jobs, receiver) = mpsc::unbounded_channel();
        let local = app.clone();
        std::thread::spawn(move || {
            let thread = async move {
                let service = test::init_service(local()).await;
                work(service, test::TestRequest::to_request, receiver).await;
            };
            actix_web::rt::System::new().block_on(thread);
        });
        Self {
            jobs,
            serve: Arc::new(move || {
                let server = HttpServer::new(app.clone()).workers(1).disable_signals();
                // The connection ends with its client, so that tests can disconnect.
                let server = server.h1_allow_half_closed(false);
                let server = server.bind(("127.0.0.1", 0)).unwrap();
                let address = server.addrs()[0];
                tokio::spawn(server.run());
                address
            }),
            runs,
        }
    }

    /// Answers every request with `201` and the number of the run.
    pub(crate) fn counting(layer: IdempotencyLayer) -> Self {
        Self::counting_of(IdempotencyMiddleware::from_layer(layer))
    }

    pub(crate) fn counting_of(middleware: IdempotencyMiddleware) -> Self {
        let number = Arc::new(AtomicUsize::new(0));
        Self::of(middleware, move |_| {
            let number = number.fetch_add(1, Ordering::SeqCst) + 1;
            async move { (StatusCode::CREATED, format!("run {number}")) }
        })
    }

    /// How often the handler was called.
    pub(crate) fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    /// Sends a request, as a client that disconnects if this future is dropped.
    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Answer {
        let answer = self.try_send(request).await;
        answer.expect("the handler did not panic")
    }

    /// Sends a request; `None` if the handler panicked.
    pub(crate) async fn try_send(&self, request: Request<Full<Bytes>>) -> Option<Answer> {
        let (reply, answer) = oneshot::channel();
        self.jobs.send((request, reply)).expect("the thread lives");
        answer.await.ok()
    }

    /// Serves on a port of the loopback interface.
    pub(crate) fn serve(&self) -> SocketAddr {
        (self.serve)()
    }

    pub(crate) async fn until_runs(&self, runs: usize) {
        until(async || self.runs() >= runs).await;
    }
}

/// Handles requests until the application is dropped. `Q` is a type that actix does not name.
async fn work<S, B, Q: 'static>(
    service: S,
    of: fn(test::TestRequest) -> Q,
    mut jobs: mpsc::UnboundedReceiver<Job>,
) where
    S: Service<Q, Response = actix_web::dev::ServiceResponse<B>, Error = Error> + 'static,
    B: actix_web::body::MessageBody + 'static,
{
    let service = Rc::new(service);
    while let Some((request, mut reply)) = jobs.recv().await {
        let service = Rc::clone(&service);
        actix_web::rt::spawn(async move {
            let answering = async {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let uri = parts.uri.to_string();
                let method = parts.method.as_str().as_bytes();
                let mut request = test::TestRequest::with_uri(&uri)
                    .method(actix_web::http::Method::from_bytes(method).unwrap());
                for (name, value) in &parts.headers {
                    request = request.append_header((name.as_str(), value.as_bytes()));
                }
                match service.call(of(request.set_payload(body))).await {
                    Ok(response) => Answer::of(response.into_parts().1.map_into_boxed_body()).await,
                    // As the server does.
                    Err(error) => Answer::of(error.error_response()).await,
                }
            };
            tokio::select! {
                answer = answering => drop(reply.send(answer)),
                () = reply.closed() => {}
            }
        });
    }
}

/// Sends requests over the network.
pub(crate) async fn send_to(
    address: SocketAddr,
    mut request: Request<Full<Bytes>>,
) -> Result<Answer, hyper_util::client::legacy::Error> {
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    *request.uri_mut() = format!("http://{address}{}", request.uri())
        .parse()
        .unwrap();
    let (parts, body) = client.request(request).await?.into_parts();
    Ok(Answer {
        status: parts.status,
        headers: parts.headers,
        body: body.collect().await.unwrap().to_bytes(),
    })
}

impl Answer {
    async fn of(response: HttpResponse<BoxBody>) -> Self {
        let mut headers = HeaderMap::new();
        for (name, value) in response.headers() {
            let name = http::HeaderName::from_bytes(name.as_ref()).unwrap();
            headers.append(name, value.as_bytes().try_into().unwrap());
        }
        Self {
            status: StatusCode::from_u16(response.status().as_u16()).unwrap(),
            headers,
            body: to_bytes(response.into_body()).await.unwrap(),
        }
    }
}

/// Answers `201` with these headers and this body.
pub(crate) fn created<const N: usize>(
    headers: [(HeaderName, &'static str); N],
    body: Vec<u8>,
) -> HttpResponse {
    let mut response = HttpResponse::Created();
    for (name, value) in headers {
        response.append_header((name.as_str(), value));
    }
    response.body(body)
}

/// Answers `204`.
pub(crate) fn no_content() -> HttpResponse {
    HttpResponse::NoContent().finish()
}

/// A `POST` of JSON to `/orders` by the account `a`, with this key.
pub(crate) fn post(key: &str, body: &'static str) -> Request<Full<Bytes>> {
    request("POST", "/orders", key, body)
}

pub(crate) fn request(
    method: &str,
    path: &str,
    key: &str,
    body: &'static str,
) -> Request<Full<Bytes>> {
    Request::builder()
        .method(method)
        .uri(path)
        .header("x-account", "a")
        .header("content-type", "application/json")
        .header("idempotency-key", key)
        .body(Full::from(body))
        .unwrap()
}
