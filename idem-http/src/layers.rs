//! The order of layers: which go around an [`IdempotencyLayer`](crate::IdempotencyLayer). It holds
//! only documentation.
//!
//! From the outside to the inside:
//!
//! | layer | outside of the idempotency layer | inside of it |
//! | --- | --- | --- |
//! | tracing | sees every answer | sees no replay and no refusal |
//! | CORS | a browser may read replays and refusals | it may read neither |
//! | compression | each client gets a coding that it accepts | each client gets the coding of the first one |
//! | authentication | each caller is checked, and gives the scope | a replay reaches a caller who was not checked |
//! | time-out | the handler goes on, and the retry gets its answer | the handler is cut off, and the retry runs again |
//!
//! So all of them belong outside. In axum the layer that is added last is the outermost:
//!
//! ```
//! use std::time::Duration;
//!
//! use axum::{Router, middleware, routing::post};
//! # use axum::{extract::Request, middleware::Next, response::Response};
//! use http::StatusCode;
//! # use http::request::Parts;
//! # use idem_core::{Idempotency, MemoryStore};
//! # use idem_http::IdempotencyLayer;
//! use tower_http::compression::CompressionLayer;
//! use tower_http::cors::CorsLayer;
//! use tower_http::timeout::TimeoutLayer;
//! use tower_http::trace::TraceLayer;
//!
//! # let keys = IdempotencyLayer::new(Idempotency::new(MemoryStore::new()), |_: &Parts| None::<String>);
//! # async fn authenticate(request: Request, next: Next) -> Response { next.run(request).await }
//! let limit = Duration::from_secs(10);
//! let app: Router = Router::new()
//!     .route("/payments", post(async || "paid"))
//!     .layer(keys)
//!     .layer(TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, limit))
//!     .layer(middleware::from_fn(authenticate))
//!     .layer(CompressionLayer::new())
//!     .layer(CorsLayer::permissive())
//!     .layer(TraceLayer::new_for_http());
//! # let _ = app;
//! ```
//!
//! # Time-outs
//!
//! A time-out outside drops the answer, as a client does that disconnects. The layer finishes the
//! handler in a task of its own, so the retry gets the answer of the first run. This needs
//! [`OnDisconnect::Finish`](crate::OnDisconnect::Finish), the default.
//!
//! A time-out inside drops the handler where it stands: a payment may be made and not recorded. The
//! layer does not store its `408` ([`Statuses::without_transient`](crate::Statuses::without_transient)),
//! so the retry runs again. Give such work a limit of its own, and a key for each system that it
//! calls ([`Work::derive`](idem_core::Work::derive)).
//!
//! # Authentication
//!
//! A replay skips everything inside of the layer, permissions too. A `401` or `407` from inside is
//! not stored, so that the retry with credentials runs.
