//! Fuzz targets of the family, in `tests/targets`, and what they share. See the README beside.

pub mod corpus;

/// Values made from the bytes of an input, which are zeros after its end.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    /// Returns whether nothing is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns up to so many bytes.
    pub fn bytes(&mut self, most: usize) -> &'a [u8] {
        let (first, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        first
    }

    /// Returns a byte.
    pub fn byte(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }

    /// Returns a number below this one, which is at most 256.
    pub fn below(&mut self, end: u16) -> usize {
        usize::from(u16::from(self.byte()) % end.max(1))
    }

    /// Returns a number of eight bytes.
    pub fn number(&mut self) -> i64 {
        let mut whole = [0; 8];
        let bytes = self.bytes(8);
        whole[..bytes.len()].copy_from_slice(bytes);
        i64::from_le_bytes(whole)
    }

    /// Returns a text, whose length comes first.
    pub fn text(&mut self) -> String {
        let length = usize::from(self.byte());
        String::from_utf8_lossy(self.bytes(length)).into_owned()
    }

    /// Returns the rest.
    #[must_use]
    pub fn rest(self) -> &'a [u8] {
        self.0
    }
}
