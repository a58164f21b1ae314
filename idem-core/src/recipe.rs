//! Ways to make a [`Key`] from the data of an application.

use unicode_normalization::UnicodeNormalization;

use crate::digest::{hex, length_prefixed};
use crate::{Error, Key, Nonce, Result};

/// The target of an intent: an id that is compared byte for byte, or a name as people write it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Target<'a> {
    /// A stable identifier; compared byte for byte.
    Id(&'a str),
    /// A human name; compared after [`normalize_name`].
    Name(&'a str),
}

impl std::fmt::Debug for Target<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Id(_) => f.write_str("Target::Id(..)"),
            Self::Name(_) => f.write_str("Target::Name(..)"),
        }
    }
}

impl Key {
    /// Creates a key whose id is `p1:` and the SHA-256 of the parts, each preceded by its length.
    /// So the parts may be any bytes of any length, and `["ab", "c"]` is not `["a", "bc"]`.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when there is no part, or when scope or
    /// operation are outside the limits of [`Key::new`].
    pub fn from_parts<P: AsRef<[u8]>>(
        scope: impl AsRef<str>,
        operation: impl AsRef<str>,
        parts: impl IntoIterator<Item = P>,
    ) -> Result<Self> {
        let parts: Vec<P> = parts.into_iter().collect();
        if parts.is_empty() {
            return Err(Error::invalid_input(
                "a key from parts needs at least one part",
            ));
        }
        let digest = length_prefixed(parts.iter().map(AsRef::as_ref));
        Self::stored(scope, operation, format!("p1:{}", hex(&digest)))
    }

    /// Creates a key from who + target + intent: `who` becomes the scope, `intent` the operation,
    /// and the id is `t1:` and a hash of the target. An id and a name never give the same key.
    ///
    /// Two people who request a build of "My  Café " and "my café" mean one build:
    ///
    /// ```
    /// use idem_core::key::Target;
    /// use idem_core::Key;
    /// let one = Key::from_intent("user-7", Target::Name("My  Cafe\u{301} "), "build")?;
    /// let two = Key::from_intent("user-7", Target::Name("my café"), "build")?;
    /// assert_eq!(one, two);
    /// # Ok::<(), idem_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when the target is empty (a name: after it
    /// was normalised), or when `who` or `intent` are outside the limits of [`Key::new`].
    pub fn from_intent(
        who: impl AsRef<str>,
        target: Target<'_>,
        intent: impl AsRef<str>,
    ) -> Result<Self> {
        let (kind, text) = match target {
            Target::Id(id) => ("id", id.to_owned()),
            Target::Name(name) => ("name", normalize_name(name)),
        };
        if text.is_empty() {
            return Err(Error::invalid_input(format!(
                "the target {kind} of the intent is empty"
            )));
        }
        let digest = length_prefixed([kind.as_bytes(), text.as_bytes()]);
        Self::stored(who, intent, format!("t1:{}", hex(&digest)))
    }

    /// Creates a key from a short client-chosen [`Nonce`], per author.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when author or operation are outside the
    /// limits of [`Key::new`].
    pub fn from_nonce(
        author: impl AsRef<str>,
        operation: impl AsRef<str>,
        nonce: &Nonce,
    ) -> Result<Self> {
        Self::new(author, operation, nonce.as_str())
    }
}

/// Returns the form in which names are compared: Unicode NFKC, lower case, without white space at
/// the ends, and with inner runs of white space folded into one space.
///
/// NFKC is applied again after lower-casing, because lower-casing may leave a decomposed form. The
/// result is a fixed point: normalising it again changes nothing.
#[must_use]
pub fn normalize_name(name: &str) -> String {
    let compatible: String = name.nfkc().collect();
    let lower: String = compatible.to_lowercase().nfkc().collect();
    lower.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parts_with_the_same_concatenation_differ() {
        let one = Key::from_parts("s", "o", ["ab", "c"]).unwrap();
        let two = Key::from_parts("s", "o", ["a", "bc"]).unwrap();
        assert_ne!(one, two);
        assert!(Key::from_parts::<&str>("s", "o", []).is_err());
    }

    #[test]
    fn parts_hash_is_pinned() {
        // printf '\0\0\0\0\0\0\0\2ab\0\0\0\0\0\0\0\1c' | sha256sum
        assert_eq!(
            Key::from_parts("s", "o", ["ab", "c"]).unwrap().id(),
            "p1:601d5476e2ccfe2c87a2bba7a322659734a05749d5b5aa781f513e4912db0d5f"
        );
    }

    #[test]
    fn names_are_normalised() {
        for (name, expected) in [
            ("  My   Project ", "my project"),
            ("CAFE\u{301}", "café"),
            ("ﬁne\u{a0}print", "fine print"),
            ("Ⅷ", "viii"),
            ("a\t\n b", "a b"),
            ("ＦＵＬＬ", "full"),
        ] {
            assert_eq!(normalize_name(name), expected);
        }
    }

    #[test]
    fn an_id_is_never_a_name() {
        let id = Key::from_intent("w", Target::Id("x"), "build").unwrap();
        let name = Key::from_intent("w", Target::Name("x"), "build").unwrap();
        assert_ne!(id, name);
        assert_ne!(
            Key::from_intent("w", Target::Id("X"), "build").unwrap(),
            id,
            "ids are compared byte for byte"
        );
        assert!(Key::from_intent("w", Target::Name(" \t"), "build").is_err());
    }

    proptest! {
        #[test]
        fn normalising_twice_changes_nothing(name in "\\PC{0,40}") {
            let once = normalize_name(&name);
            prop_assert_eq!(normalize_name(&once), once);
        }
    }
}
