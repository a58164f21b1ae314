//! The pages. Each file has one, from the request to its template.

mod change;
mod changes;
mod list;
mod live;
mod login;
mod page;
mod problem;
mod record;
mod rows;

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::CONTENT_TYPE;

pub(crate) use change::{confirm, force};
pub(crate) use changes::changes;
pub(crate) use list::{filtered_records, records};
pub(crate) use live::{events, overview};
pub(crate) use login::{log_in, log_out, login_page, show_login};
pub(crate) use problem::Problem;
pub(crate) use record::{record, result};

pub(crate) async fn not_found() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "The console has no such page.")
}

pub(crate) async fn wrong_method() -> Problem {
    let text = "This page answers other requests. Open it from the overview.";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, text)
}

pub(crate) async fn style() -> Response {
    let text = include_str!("../../assets/console.css");
    ([(CONTENT_TYPE, "text/css; charset=utf-8")], text).into_response()
}

pub(crate) async fn script() -> Response {
    let text = include_str!("../../assets/console.js");
    ([(CONTENT_TYPE, "text/javascript; charset=utf-8")], text).into_response()
}

pub(crate) async fn icon() -> Response {
    let text = include_str!("../../assets/icon.svg");
    ([(CONTENT_TYPE, "image/svg+xml")], text).into_response()
}
