//! [`Content`]: the signed content of a delivery.

use std::borrow::Cow;

/// The signed content, in pieces that are not copied where they are part of the request.
#[derive(Debug, Default)]
pub(crate) struct Content<'a>(Vec<Cow<'a, [u8]>>);

impl<'a> Content<'a> {
    pub(crate) fn push(&mut self, piece: impl Into<Cow<'a, [u8]>>) {
        self.0.push(piece.into());
    }

    pub(crate) fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(AsRef::as_ref)
    }

    /// Returns the content in one piece.
    pub(crate) fn concat(&self) -> Vec<u8> {
        self.0.concat()
    }
}
