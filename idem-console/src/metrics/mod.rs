//! What services report in Prometheus' text format: read, and compared with what they reported
//! before.

mod scrape;
mod text;
mod traffic;

pub(crate) use scrape::Scraper;
pub(crate) use traffic::{Quantile, Traffic};
