//! A server for the clients that people use.
//!
//! A client opens a world by `POST /worlds`: a preset or a receiver of webhooks, the answers of the
//! handler behind it, and the faults of the wire in front of it. It then sends its requests to the
//! world's own port, and reads from `GET /worlds/{port}` how often the handler ran. The first line of
//! the output is the port of these commands. The end of the input ends the server.

mod plan;
mod world;

use std::collections::HashMap;
use std::future::{Ready, ready};
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use http::StatusCode;
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use crate::plan::Plan;
use crate::world::{Counts, World};

type Worlds = Arc<Mutex<HashMap<u16, Arc<World>>>>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let worlds = Worlds::default();
    let router = Router::new()
        .route("/worlds", post(open))
        .route("/worlds/{port}", get(counts).post(next))
        .with_state(worlds);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?.port());
    let (mut input, mut text) = (tokio::io::stdin(), Vec::new());
    tokio::select! {
        ended = axum::serve(listener, router) => ended?,
        _ = input.read_to_end(&mut text) => {}
    }
    Ok(())
}

/// Opens a world.
async fn open(State(worlds): State<Worlds>, Json(plan): Json<Plan>) -> Response {
    let world = Arc::new(World::new(plan));
    let served = async {
        let router = world.router()?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(port)
    };
    match served.await {
        Ok(port) => {
            let mut worlds = worlds.lock().unwrap_or_else(PoisonError::into_inner);
            worlds.insert(port, Arc::clone(&world));
            Json(json!({"port": port})).into_response()
        }
        Err(error) => (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    }
}

fn world(worlds: &Worlds, port: u16) -> Result<Arc<World>, StatusCode> {
    let worlds = worlds.lock().unwrap_or_else(PoisonError::into_inner);
    worlds.get(&port).cloned().ok_or(StatusCode::NOT_FOUND)
}

/// Returns how many requests came, and how often the handler ran.
fn counts(
    State(worlds): State<Worlds>,
    Path(port): Path<u16>,
) -> Ready<Result<Json<Counts>, StatusCode>> {
    ready(world(&worlds, port).map(|world| Json(world.counts())))
}

/// Lets the handler send its next event.
fn next(State(worlds): State<Worlds>, Path(port): Path<u16>) -> Ready<Result<(), StatusCode>> {
    ready(world(&worlds, port).map(|world| world.next()))
}
