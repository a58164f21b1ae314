//! Hexadecimal of 32 bytes.

pub(crate) fn encode(bytes: &[u8; 32]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(64), |mut text, byte| {
            text.extend(
                [byte >> 4, byte & 15]
                    .map(|digit| char::from_digit(u32::from(digit), 16).unwrap_or('0')),
            );
            text
        })
}

/// Decodes exactly 64 digits of either case.
pub(crate) fn decode(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes();
    if digits.len() != 64 {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
    }
    Some(bytes)
}

fn nibble(digit: u8) -> Option<u8> {
    let value = char::from(digit).to_digit(16)?;
    u8::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};

    #[test]
    fn sixty_four_digits_and_nothing_else() {
        let bytes = std::array::from_fn(|index| u8::try_from(index * 8 + 7).unwrap());
        let text = encode(&bytes);
        assert_eq!(decode(&text), Some(bytes));
        assert_eq!(decode(&text.to_uppercase()), Some(bytes));
        for bad in [
            "",
            &text[1..],
            &format!("{text}0"),
            &text.replace('7', "g"),
            &"é".repeat(32),
        ] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }
}
