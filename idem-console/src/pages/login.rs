//! Logging in with the token, and out.

use std::sync::Arc;

use askama::Template;
use axum::Extension;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Redirect, Response};
use http::header::SET_COOKIE;
use http::{HeaderValue, StatusCode};

use super::Problem;
use super::page::{Page, html};
use crate::client::Client;
use crate::console::Console;
use crate::form::Fields;
use crate::guard::too_often;
use crate::identity::{Identity, TOKEN_HOLDER, is_name, set_cookie};
use crate::options::Proof;
use crate::secret::same;

#[derive(Template)]
#[template(path = "login.html")]
struct LoginPage {
    page: Page,
    error: Option<&'static str>,
}

pub(crate) fn login_page(
    console: &Console,
    status: StatusCode,
    error: Option<&'static str>,
) -> Response {
    let page = Page::plain(console);
    html(status, &LoginPage { page, error })
}

pub(crate) async fn show_login(State(console): State<Arc<Console>>) -> Response {
    match token(&console) {
        Some(_) => login_page(&console, StatusCode::OK, None),
        None => Redirect::to(&console.path("")).into_response(),
    }
}

pub(crate) async fn log_in(State(console): State<Arc<Console>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let client = Client::of(&parts, &console.options);
    let Some(token) = token(&console) else {
        return Problem::new(StatusCode::NOT_FOUND, "Nobody logs in here.").into_response();
    };
    // Before anything else, so that the limit holds for right tokens, too.
    if let Err(wait) = console.logins.take(client.address) {
        return too_often(wait);
    }
    let fields = match Fields::read(Request::from_parts(parts, body)).await {
        Ok(fields) => fields,
        Err(response) => return response,
    };
    if !same(fields.get("token"), token) {
        tracing::warn!(address = ?client.address, "refused: a wrong token");
        let error = Some("This is not the token.");
        return login_page(&console, StatusCode::UNAUTHORIZED, error);
    }
    let name = fields.get("name").trim();
    let who = match name {
        "" => TOKEN_HOLDER.to_owned(),
        name if is_name(name) => format!("{TOKEN_HOLDER}:{name}"),
        _ => {
            let error = Some("The name is too long, or has control characters.");
            return login_page(&console, StatusCode::BAD_REQUEST, error);
        }
    };
    let session = match console.sessions.begin(who, client.address) {
        Ok(session) => session,
        Err(error) => return Problem::from(error).into_response(),
    };
    tracing::info!(address = ?client.address, "logged in");
    go_home(&console, &client, &session)
}

pub(crate) async fn log_out(
    State(console): State<Arc<Console>>,
    Extension(identity): Extension<Identity>,
    _form: Fields,
) -> Response {
    if let Some(session) = &identity.session {
        console.sessions.end(session);
    }
    go_home(&console, &identity.client, "")
}

fn go_home(console: &Console, client: &Client, session: &str) -> Response {
    let mut response = Redirect::to(&console.path("")).into_response();
    if let Ok(cookie) = HeaderValue::from_str(&set_cookie(console, client, session)) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

fn token(console: &Console) -> Option<&str> {
    match &console.options.access.as_ref()?.0 {
        Proof::Token(token) => Some(token),
        Proof::Header(_) => None,
    }
}
