use std::fmt;

use serde::{Deserialize, Serialize};

/// Which software answers, and in which version, as it says itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Product {
    /// For example `PostgreSQL`.
    pub name: String,
    /// For example `15.18`; absent where the server tells it only after a log-in that is not ours to make.
    pub version: Option<String>,
}

impl Product {
    pub(crate) fn new(name: &str, version: Option<String>) -> Self {
        Self {
            name: name.into(),
            version,
        }
    }
}

impl fmt::Display for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.version {
            Some(version) => write!(f, "{} {version}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Product;

    #[test]
    fn a_product_reads_as_name_and_version() {
        assert_eq!(
            Product::new("PostgreSQL", Some("15.18".into())).to_string(),
            "PostgreSQL 15.18"
        );
        assert_eq!(Product::new("PostgreSQL", None).to_string(), "PostgreSQL");
    }
}
