//! [`Page`]: what is around every page.

use askama::Template;
use axum::response::{Html, IntoResponse, Response};
use http::StatusCode;

use super::Problem;
use crate::console::Console;
use crate::identity::Identity;

pub(super) struct Page {
    pub(super) base: String,
    /// Which page this is, for the navigation.
    pub(super) at: &'static str,
    pub(super) person: Option<Person>,
    pub(super) may_change: bool,
    pub(super) shows_results: bool,
}

pub(super) struct Person {
    pub(super) who: String,
    pub(super) csrf: String,
    pub(super) has_session: bool,
}

impl Page {
    /// A page for a known person.
    pub(super) fn new(console: &Console, at: &'static str, identity: &Identity) -> Self {
        Self {
            person: Some(Person {
                who: identity.who.clone(),
                csrf: identity.csrf.clone(),
                has_session: identity.session.is_some(),
            }),
            at,
            ..Self::plain(console)
        }
    }

    /// A page for anybody.
    pub(super) fn plain(console: &Console) -> Self {
        Self {
            base: console.options.base_path.clone(),
            at: "",
            person: None,
            may_change: console.options.may_change,
            shows_results: console.options.shows_results,
        }
    }
}

/// Answers with the page.
pub(super) fn html(status: StatusCode, page: &impl Template) -> Response {
    match page.render() {
        Ok(html) => (status, Html(html)).into_response(),
        Err(error) => {
            tracing::error!(%error, "a page cannot be written");
            let text = "The page could not be written.";
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
        }
    }
}

/// Writes a part of a page.
pub(super) fn part(part: &impl Template) -> String {
    part.render().unwrap_or_default()
}

/// A name and a value.
pub(super) struct Fact {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) unit: &'static str,
}

impl Fact {
    /// A fact whose value has no characters of HTML.
    pub(super) fn new(name: &str, value: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            value: value.into(),
            unit: "",
        }
    }
}
