//! Requests to an axum route, behind the HTTP layer and without it.

use std::net::SocketAddr;

use axum::routing::{MethodRouter, post};
use axum::{Json, Router};
use http::request::Parts;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use idem_core::{BoxError, Bytes, Idempotency};
use idem_http::IdempotencyLayer;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::{KEYS, Scene, Visit};
use crate::ids::SCOPE;
use crate::measured::Measured;
use crate::operations::{Keys, Operation};

const ORDER: &str = r#"{"amount":1200,"currency":"EUR","source":"card_8f14e45fceea167a"}"#;

/// Takes no time, so that nothing hides the layer.
async fn pay(Json(order): Json<Value>) -> (StatusCode, Json<Value>) {
    let payment = json!({"id": "ch_8f14e45f", "status": "succeeded", "amount": order["amount"]});
    (StatusCode::CREATED, Json(payment))
}

/// A server of this process, and requests to it.
struct Posts {
    address: SocketAddr,
    /// Whether answers have to be replays.
    replayed: bool,
    /// Dropping it ends the server.
    _server: JoinSet<()>,
}

impl Posts {
    async fn to(route: MethodRouter) -> Result<Self, BoxError> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let app = Router::new().route("/payments", route);
        let mut server = JoinSet::new();
        server.spawn(async move {
            // It ends with its task.
            let _ = axum::serve(listener, app).await;
        });
        Ok(Self {
            address,
            replayed: false,
            _server: server,
        })
    }

    /// Posts to the route alone.
    async fn without_layer() -> Result<Self, BoxError> {
        Self::to(post(pay)).await
    }

    /// Posts to the route behind the layer.
    async fn behind_layer(engine: Idempotency) -> Result<Self, BoxError> {
        let scope = |_: &Parts| Some(SCOPE.to_owned());
        Self::to(post(pay).layer(IdempotencyLayer::new(engine, scope))).await
    }

    /// Expects replays.
    fn replayed(mut self) -> Self {
        self.replayed = true;
        self
    }
}

impl Operation for Posts {
    type Connection = SendRequest<Full<Bytes>>;

    async fn connect(&self) -> Result<Self::Connection, BoxError> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }

    async fn step(&self, sender: &mut Self::Connection, id: &str) -> Result<(), BoxError> {
        let request = Request::post("/payments")
            .header("host", "localhost")
            .header("content-type", "application/json")
            .header("idempotency-key", format!("\"{id}\""))
            .body(Full::from(ORDER))?;
        sender.ready().await?;
        let response = sender.send_request(request).await?;
        let replayed = response.headers().contains_key("idempotent-replayed");
        let status = response.status();
        response.into_body().collect().await?;
        match status == StatusCode::CREATED && replayed == self.replayed {
            true => Ok(()),
            false => Err(format!("{status}, replayed: {replayed}").into()),
        }
    }
}

const LAYER: &str = "layer";
const ROUTE: &str = "route alone";

/// Measures an axum route behind the layer, with the memory store, against the same route without
/// it. A replay is compared with a call of the handler, which it spares.
pub(super) async fn visit(visit: &mut Visit<'_>) -> Result<(), BoxError> {
    let arena = visit.arena().await?;
    let behind_layer = || Posts::behind_layer(Idempotency::new(arena.store()));
    let keys = Keys::used(&behind_layer().await?, KEYS).await?;
    let fresh = vec![
        Measured::boxed(LAYER, behind_layer().await?),
        Measured::boxed(ROUTE, Posts::without_layer().await?),
    ];
    let replayed = vec![
        Measured::on(&keys, LAYER, behind_layer().await?.replayed()),
        Measured::on(&keys, ROUTE, Posts::without_layer().await?),
    ];
    for (path, contenders) in [("http_fresh", fresh), ("http_replayed", replayed)] {
        visit.measure(Scene::new(path, &[64], contenders)).await?;
    }
    Ok(())
}
