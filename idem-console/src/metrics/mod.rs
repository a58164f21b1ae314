//! What services report in Prometheus' text format: read, and compared with what they reported
//! before.

mod scrape;
mod text;
mod traffic;

pub use scrape::unstored_answers;

pub(crate) use scrape::Scraper;
pub(crate) use traffic::{DECISIONS, Quantile, Traffic};
