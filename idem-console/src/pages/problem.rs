//! [`Problem`]: why there is no page.

use std::borrow::Cow;

use askama::Template;
use axum::Extension;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use idem_core::{Effect, Error, ErrorKind};

use super::page::Page;
use crate::console::Console;

/// An error for a person. On its way out it becomes a page.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    status: StatusCode,
    text: Cow<'static, str>,
}

#[derive(Template)]
#[template(path = "problem.html")]
struct ProblemPage<'p> {
    page: Page,
    status: u16,
    title: &'static str,
    text: &'p str,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, text: impl Into<Cow<'static, str>>) -> Self {
        let text = text.into();
        Self { status, text }
    }

    pub(crate) fn page(&self, console: &Console) -> Body {
        let page = ProblemPage {
            page: Page::plain(console),
            status: self.status.as_u16(),
            title: self.status.canonical_reason().unwrap_or("Problem"),
            text: &self.text,
        };
        Body::from(page.render().unwrap_or_default())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.status, Extension(self)).into_response()
    }
}

/// Errors of stores show neither keys nor payloads.
impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let status = match error.kind() {
            ErrorKind::InvalidInput => StatusCode::BAD_REQUEST,
            ErrorKind::Unavailable | ErrorKind::Contention => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let after = match error.effect() {
            Effect::None => "",
            _ => " The step may have been taken: open the record again.",
        };
        Self::new(status, format!("{error}.{after}"))
    }
}
