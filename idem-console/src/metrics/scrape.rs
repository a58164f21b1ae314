//! [`Scraper`]: reads the pages of the services.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::Uri;
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use idem_core::{Effect, Error, ErrorKind, Result};
use tokio::time::Instant;

use super::traffic::{Readings, Traffic, traffic, unstored};
use crate::options::page_of_metrics;

/// How long a service may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Most bytes of a page.
const MAX_PAGE: usize = 4 << 20;

pub(crate) struct Scraper {
    client: Client<HttpConnector, Empty<Bytes>>,
    pages: Vec<(Uri, Readings)>,
}

impl Scraper {
    pub(crate) fn new(urls: &[Uri]) -> Self {
        Self {
            client: Client::builder(TokioExecutor::new()).build_http(),
            pages: urls
                .iter()
                .map(|url| (url.clone(), Readings::default()))
                .collect(),
        }
    }

    /// Reads every page. Returns what they say, and how many could not be read; `None` without
    /// pages.
    pub(crate) async fn scrape(&mut self) -> Option<(Traffic, usize)> {
        if self.pages.is_empty() {
            return None;
        }
        let urls: Vec<Uri> = self.pages.iter().map(|(url, _)| url.clone()).collect();
        let read = urls.into_iter().map(|url| read(&self.client, url));
        let texts = join_all(read).await;
        let now = Instant::now();
        let mut missing = 0;
        for ((_, readings), text) in self.pages.iter_mut().zip(texts) {
            match text {
                Some(text) => readings.add(&text, now),
                None => missing += 1,
            }
        }
        Some((traffic(self.pages.iter().map(|(_, page)| page)), missing))
    }
}

/// Reads a page of metrics on plain `http`, as
/// [`Options::with_metrics_url`](crate::Options::with_metrics_url) takes it. Returns the counts of
/// [`UNSTORED`](idem_core::engine::observe::names::UNSTORED) since the service began, by the label
/// `reason`; unknown ones are `other`. It counts at most 20,000 series.
///
/// # Errors
///
/// `InvalidInput` when the text is not such a URL. `Unavailable` when no answer with 2xx and UTF-8
/// text arrives within 5 s, or it has more than 4 MiB, or no metrics of idem.
pub async fn unstored_answers(url: &str) -> Result<BTreeMap<&'static str, u64>> {
    let url = page_of_metrics(url)?;
    let client = Client::builder(TokioExecutor::new()).build_http();
    let text = read(&client, url).await;
    text.and_then(|text| unstored(&text)).ok_or_else(|| {
        let message = "no metrics of idem can be read: see with `curl` that the page has `idem_…`";
        Error::new(ErrorKind::Unavailable, Effect::None, message)
    })
}

async fn read(client: &Client<HttpConnector, Empty<Bytes>>, url: Uri) -> Option<String> {
    let page = async {
        let response = client.get(url.clone()).await.ok()?;
        let is_found = response.status().is_success();
        let body = Limited::new(response.into_body(), MAX_PAGE).collect();
        let body = body.await.ok().filter(|_| is_found)?.to_bytes();
        String::from_utf8(body.into()).ok()
    };
    let text = tokio::time::timeout(TIMEOUT, page).await.ok().flatten();
    if text.is_none() {
        // An URL may have a password.
        tracing::debug!(host = url.host(), "metrics cannot be read");
    }
    text
}
