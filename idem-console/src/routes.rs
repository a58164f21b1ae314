//! The pages by path, and what their requests pass.

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::Redirect;
use axum::routing::{any, get, post};
use idem_core::{IdempotencyStore, Result};
use tower::ServiceExt;

use crate::console::Console;
use crate::form::MAX_FORM_BYTES;
use crate::{Options, guard, pages, sample};

/// Returns the pages of a console as a router, for a service that mounts it itself. The options must
/// say who may use it ([`Options::with_access`]): the router does not know which machines reach the
/// service.
///
/// With [`Options::with_base_path`], merge it into the service's router. Serve that with
/// `into_make_service_with_connect_info::<SocketAddr>()`: without the peer's address no proxy's
/// header counts, and rates are limited for all callers together. The address of the options says
/// whether the name of the host is checked: see [`Options::with_host`].
///
/// Records are sampled in the background until the router is dropped.
///
/// # Errors
///
/// `Misconfigured` where the store does not list its records, or the options have no access;
/// `Unavailable` where the system has no random numbers.
///
/// # Panics
///
/// Outside of a Tokio runtime.
pub fn router(store: Arc<dyn IdempotencyStore>, options: Options) -> Result<Router> {
    options.check_mounted()?;
    served(store, options)
}

/// Returns the pages for a service of them, which may have no access: then it answers only this
/// machine.
pub(crate) fn served(store: Arc<dyn IdempotencyStore>, options: Options) -> Result<Router> {
    let console = Arc::new(Console::new(store, options)?);
    let wanted = Arc::clone(&console.wanted);
    tokio::spawn(sample::keep_sampling(Arc::downgrade(&console), wanted));
    let base = console.options.base_path.clone();
    let pages = pages(console);
    if base.is_empty() {
        return Ok(pages);
    }
    // Behind a handler: a merged router would bring its fallback with it.
    let home = format!("{base}/");
    let pages = any(async move |request: Request| pages.oneshot(request).await);
    Ok(Router::new()
        .route(&home, pages.clone())
        .route(&format!("{home}{{*path}}"), pages)
        .route(&base, get(async move || Redirect::permanent(&home))))
}

fn pages(console: Arc<Console>) -> Router {
    let path = |page: &str| console.path(page);
    let known = Router::new()
        .route(&path(""), get(pages::overview))
        .route(&path("events"), get(pages::events))
        .route(
            &path("records"),
            get(pages::records).post(pages::filtered_records),
        )
        .route(&path("record"), post(pages::record))
        .route(&path("result"), post(pages::result))
        .route(&path("changes"), get(pages::changes))
        .route(&path("confirm"), post(pages::confirm))
        .route(&path("force"), post(pages::force))
        .route(&path("logout"), post(pages::log_out))
        .fallback(pages::not_found)
        .method_not_allowed_fallback(pages::wrong_method)
        .layer(from_fn_with_state(
            Arc::clone(&console),
            guard::authenticate,
        ));
    let open = Router::new()
        .route(&path("login"), get(pages::show_login).post(pages::log_in))
        .route(&path("assets/console.css"), get(pages::style))
        .route(&path("assets/console.js"), get(pages::script))
        .route(&path("assets/icon.svg"), get(pages::icon));
    known
        .merge(open)
        .layer(DefaultBodyLimit::max(MAX_FORM_BYTES))
        .layer(from_fn(guard::timeout))
        .layer(from_fn_with_state(Arc::clone(&console), guard::origin))
        .layer(from_fn_with_state(Arc::clone(&console), guard::finish))
        .with_state(console)
}
