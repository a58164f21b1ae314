//! Values as responses.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Error, Response, Result, carried};

impl Response {
    /// Returns the response that [`Idempotency::run`](crate::Idempotency::run) stores for this
    /// value: status 200, content type `application/json`, and the value as JSON; `null` for `()`.
    ///
    /// Work that seals its claim itself, in its own transaction, uses this response. When the
    /// engine seals it once more with the same response, nothing changes.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when the value has no JSON form, or holds
    /// what JSON does not carry and `serde_json` writes as `null`: a number that is not finite,
    /// `Some(None)`, `Some(())`.
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<Self> {
        let body = carried::to_json(WHAT, value)?;
        Ok(Self::new(200, body).with_header("content-type", "application/json"))
    }

    /// Reads the value from a JSON body.
    ///
    /// # Errors
    ///
    /// [`Corrupt`](crate::ErrorKind::Corrupt) when the body is not the JSON of a `T`. The source is
    /// `serde_json`'s error, which may quote the body.
    pub fn from_json<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(self.body()).map_err(|source| {
            Error::corrupt(format!(
                "the stored response is not the JSON of a {}",
                std::any::type_name::<T>()
            ))
            .with_source(source)
        })
    }
}

/// The name of a value in errors.
const WHAT: &str = "the result";

/// How values are stored and read back.
pub(super) trait Codec<T> {
    /// Returns the response of this value, which decodes to an equal one.
    fn encode(value: &T) -> Result<Response>;
    fn decode(response: Response) -> Result<T>;
}

/// As JSON.
pub(super) struct Json;

impl<T: Serialize + DeserializeOwned> Codec<T> for Json {
    fn encode(value: &T) -> Result<Response> {
        let response = Response::json(value)?;
        carried::reads_back::<T>(WHAT, response.body())?;
        Ok(response)
    }

    fn decode(response: Response) -> Result<T> {
        response.from_json()
    }
}

/// As they are.
pub(super) struct Raw;

impl Codec<Response> for Raw {
    fn encode(value: &Response) -> Result<Response> {
        Ok(value.clone())
    }

    fn decode(response: Response) -> Result<Response> {
        Ok(response)
    }
}
