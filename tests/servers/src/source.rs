use std::fmt;
use std::str::FromStr;

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
    pub fn forced() -> Result<Option<Self>> {
        match std::env::var(Self::VARIABLE) {
            Ok(text) if !text.is_empty() => text.parse().map(Some),
            _ => Ok(None),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Env => "env",
            Self::Container => "container",
            Self::Local => "local",
            Self::Packages => "packages",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Source {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ORDER
            .into_iter()
            .find(|source| source.name() == text)
            .ok_or_else(|| {
                Error::setting(format!(
                    "{}={text}: it is one of env, container, local, packages",
                    Self::VARIABLE
                ))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::Source;

    #[test]
    fn sources_are_tried_from_the_cheapest_to_the_dearest() {
        let names = Source::ORDER.map(|source| source.to_string());
        assert_eq!(names, ["env", "container", "local", "packages"]);
    }

    #[test]
    fn an_unknown_source_is_refused_with_the_known_ones() {
        let error = "docker".parse::<Source>().unwrap_err();
        assert!(
            error
                .to_string()
                .contains("env, container, local, packages"),
            "{error}"
        );
    }
}
