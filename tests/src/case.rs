//! [`Case`]: one named test of one law.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use crate::{CaseError, Context, Profile, Promise};

/// The result of a case.
pub type CaseResult<T = ()> = Result<T, CaseError>;

/// A running case.
pub type CaseFuture<'a> = Pin<Box<dyn Future<Output = CaseResult> + Send + 'a>>;

/// One test of one law, the same for every backend.
#[derive(Clone, Copy)]
pub struct Case {
    /// The law, 1 to 16.
    pub law: u8,
    /// The name: a sentence in snake case.
    pub name: &'static str,
    /// The promises that a backend must make for the case to make sense.
    pub needs: &'static [Promise],
    /// Whether it is one of the few that take most of the time; a run may [draw](crate::drawn) among
    /// them.
    pub expensive: bool,
    /// The test itself.
    pub run: for<'a> fn(&'a Context) -> CaseFuture<'a>,
}

impl Case {
    /// Returns the name with its law, such as `law05::expired_lease_is_taken_over_once`.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("law{:02}::{}", self.law, self.name)
    }

    /// Returns the first promise that the case needs and this profile does not make.
    #[must_use]
    pub fn lacks(&self, profile: &Profile) -> Option<Promise> {
        let needs = self.needs.iter().copied();
        needs.into_iter().find(|need| !profile.promises(*need))
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case")
            .field("name", &self.full_name())
            .field("needs", &self.needs)
            .finish_non_exhaustive()
    }
}

/// Lists the cases of one file: names of its async functions, each with its needs in brackets, and
/// `: expensive` after those that are.
macro_rules! cases {
    (law $law:literal: $($rest:tt)+) => {
        $crate::case::cases! { CASES, law $law: $($rest)+ }
    };
    ($list:ident, law $law:literal:
        $($name:ident $([$($need:ident),+])? $(: $cost:ident)?),+ $(,)?) => {
        pub(super) const $list: &[$crate::Case] = &[$($crate::Case {
            law: $law,
            name: stringify!($name),
            needs: &[$($($crate::Promise::$need),+)?],
            expensive: $crate::case::is_expensive!($($cost)?),
            run: |cx| Box::pin($name(cx)),
        }),+];
    };
}

macro_rules! is_expensive {
    () => {
        false
    };
    (expensive) => {
        true
    };
}

pub(crate) use {cases, is_expensive};
