//! Text of others on a terminal: keys and bodies may be made to deceive their reader.

/// Returns the text with every character escaped that would move the cursor, change the direction of
/// what follows, or not be seen.
pub(crate) fn plain(text: &str) -> String {
    escaped(text, false)
}

/// Returns the same, with line ends and tabs kept.
pub(crate) fn lines(text: &str) -> String {
    escaped(text, true)
}

fn escaped(text: &str, keeps_lines: bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        let is_line = keeps_lines && matches!(character, '\n' | '\t');
        if (character.is_control() && !is_line) || is_hidden(character) {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Controls of direction, and characters without a width. The joiners of emoji stay.
fn is_hidden(character: char) -> bool {
    matches!(character,
        '\u{061C}' | '\u{200B}' | '\u{200C}' | '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}'
        | '\u{2060}'..='\u{206F}' | '\u{FEFF}' | '\u{00AD}' | '\u{E0000}'..='\u{E007F}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_deceives_a_reader_is_escaped() {
        assert_eq!(plain("a\u{202e}b"), "a\\u{202e}b");
        assert_eq!(plain("\u{1b}[2J"), "\\u{1b}[2J");
        assert_eq!(plain("a\nb"), "a\\u{a}b");
        assert_eq!(lines("a\nb\r"), "a\nb\\u{d}");
        for whole in ["<script>", "שלום", "👩\u{200d}🚒", "a:b%"] {
            assert_eq!(plain(whole), whole);
        }
    }
}
