use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Where a server comes from, in the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// A URL in the environment: somebody else's server, never stopped by us.
    Env,
    /// A container of our own.
    Container,
    /// Programs that were on this machine.
    Local,
    /// Programs that were installed from the distribution's packages on the spot.
    Packages,
}

impl Source {
    /// Name of the variable that forces one source.
    pub const VARIABLE: &'static str = "IDEM_SERVER_SOURCE";

    /// Every source, in the order in which they are tried.
    pub const ORDER: [Self; 4] = [Self::Env, Self::Container, Self::Local, Self::Packages];

    /// The source that `IDEM_SERVER_SOURCE` forces.
    ///
    /// # Errors
    ///
    /// It names none.
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
