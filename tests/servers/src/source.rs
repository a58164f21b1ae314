use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// The sources of a server, in the order of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// A URL in the environment: an existing server, which is never stopped here.
    Env,
    /// A private container.
    Container,
    /// Programs that were already on this machine.
    Local,
    /// Programs installed on demand from the distribution's packages.
    Packages,
}

impl Source {
    /// The name of the variable that forces one source.
    pub const VARIABLE: &'static str = "IDEM_SERVER_SOURCE";

    /// Every source, in the order of the search.
    pub const ORDER: [Self; 4] = [Self::Env, Self::Container, Self::Local, Self::Packages];

    /// Returns the source that `IDEM_SERVER_SOURCE` forces.
    ///
    /// # Errors
    ///
    /// An error when it names no source.
    pub fn forced() -> Result<Option<Self>> {
        match std::env::var(Self::VARIABLE) {
            Ok(text) if !text.is_empty() => Self::named(&text).map(Some),
            _ => Ok(None),
        }
    }

    fn named(text: &str) -> Result<Self> {
        let mut known = Self::ORDER.into_iter();
        known
            .find(|source| source.to_string() == text)
            .ok_or_else(|| {
                let known = Self::ORDER.map(|source| source.to_string()).join(", ");
                Error::setting(format!("{}={text}: it is one of {known}", Self::VARIABLE))
            })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Env => "env",
            Self::Container => "container",
            Self::Local => "local",
            Self::Packages => "packages",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Source;

    #[test]
    fn an_unknown_source_is_refused_with_the_known_ones() {
        assert_eq!(Source::named("local").unwrap(), Source::Local);
        let error = Source::named("docker").unwrap_err().to_string();
        assert!(
            error.ends_with("env, container, local, packages"),
            "{error}"
        );
    }
}
