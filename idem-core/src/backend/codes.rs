//! Tables of a server's error codes.

use crate::{Effect, ErrorKind};

/// The meaning of an error for the caller: its kind, whether the statement may have had an effect,
/// and what to do.
pub type Meaning = (ErrorKind, Effect, &'static str);

/// A table of codes, or of the texts of errors without a code. [`error_codes!`](super::error_codes)
/// makes one. A statement with an error that is not listed may have had an effect.
#[derive(Debug)]
pub struct Codes<C: 'static>(pub &'static [(&'static [C], Meaning)]);

impl<C> Codes<C> {
    /// Returns the meaning of the first row with such a code.
    pub fn find(&self, is_such: impl Fn(&C) -> bool) -> Option<Meaning> {
        let row = self.0.iter().find(|(codes, _)| codes.iter().any(&is_such));
        row.map(|(_, meaning)| *meaning)
    }

    /// Returns all codes, in the order of the rows.
    pub fn all(&self) -> impl Iterator<Item = &C> {
        self.0.iter().flat_map(|(codes, _)| *codes)
    }
}

/// Makes a table of codes: a row for the codes with one meaning.
///
/// ```
/// use idem_core::backend::{Codes, error_codes};
/// use idem_core::{Effect, ErrorKind};
///
/// const CODES: Codes<u16> = error_codes! {
///     Contention None [1205, 1213] => "a concurrent transaction got in the way; ask again";
///     Unavailable Unknown [1053] => "the server is shutting down";
/// };
///
/// let (kind, effect, _) = CODES.find(|&code| code == 1053).unwrap();
/// assert_eq!((kind, effect), (ErrorKind::Unavailable, Effect::Unknown));
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! error_codes {
    ($($kind:ident $effect:ident $codes:expr => $message:expr;)*) => {
        $crate::backend::Codes(&[$((
            &$codes,
            ($crate::ErrorKind::$kind, $crate::Effect::$effect, $message),
        )),*])
    };
}
