//! [`Fields`]: what a form has sent.

use std::sync::Arc;

use axum::extract::{FromRequest, Request};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::StatusCode;
use http::header::CONTENT_TYPE;

use crate::console::Console;
use crate::identity::Identity;
use crate::pages::Problem;
use crate::secret::same;

/// Most bytes of a form: the longest key and the longest reason, encoded twice.
pub(crate) const MAX_FORM_BYTES: usize = 32 << 10;

/// The fields of a form that one of the console's own pages has sent to this person. They have no
/// `Debug`: they may be keys.
pub(crate) struct Fields(Vec<(String, String)>);

impl Fields {
    pub(crate) async fn read(request: Request) -> Result<Self, Response> {
        let kind = request.headers().get(CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !kind.starts_with("application/x-www-form-urlencoded") {
            let text = "This page takes what its own form sends.";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, text).into_response());
        }
        let body = Bytes::from_request(request, &()).await;
        let body = body.map_err(|rejection| {
            Problem::new(rejection.status(), "The form is too large or broken off.").into_response()
        })?;
        Ok(Self(form_urlencoded::parse(&body).into_owned().collect()))
    }

    /// Returns the first field of this name; empty if there is none.
    pub(crate) fn get(&self, name: &str) -> &str {
        let mut fields = self.0.iter();
        let field = fields.find(|(field, _)| field == name);
        field.map_or("", |(_, value)| value)
    }

    /// Returns the field of this name, if it is filled in.
    pub(crate) fn filled(&self, name: &str) -> Option<&str> {
        Some(self.get(name)).filter(|value| !value.is_empty())
    }
}

impl FromRequest<Arc<Console>> for Fields {
    type Rejection = Response;

    async fn from_request(request: Request, _: &Arc<Console>) -> Result<Self, Response> {
        let identity = request.extensions().get::<Identity>();
        let csrf = identity.map(|identity| identity.csrf.clone());
        let fields = Self::read(request).await?;
        match csrf {
            Some(csrf) if same(fields.get("csrf"), &csrf) => Ok(fields),
            _ => {
                let text = "The form is not of your session. Open the page again, and repeat it.";
                Err(Problem::new(StatusCode::FORBIDDEN, text).into_response())
            }
        }
    }
}
