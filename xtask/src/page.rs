//! Pages of `docs` that commands write in part.

use crate::Result;
use crate::machine::Machine;

/// What ran, with products and versions.
pub(crate) const EVIDENCE: &str = "docs/evidence.md";

/// Replaces the part of the page that this command writes.
///
/// # Errors
///
/// An error when the page is missing or has no such part, or cannot be written.
pub(crate) fn write(path: &str, command: &str, text: &str) -> Result {
    let page = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let page = replaced(&page, command, text)
        .ok_or_else(|| format!("{path}: no lines `{}` and `{END}`", begin(command)))?;
    Ok(std::fs::write(path, page)?)
}

const END: &str = "<!-- end -->";

fn begin(command: &str) -> String {
    format!("<!-- begin: written by `cargo xtask {command} --docs` -->")
}

/// Returns the page with another text between the markers.
fn replaced(page: &str, command: &str, text: &str) -> Option<String> {
    let begin = begin(command);
    let (before, rest) = page.split_once(&begin)?;
    let (_, after) = rest.split_once(END)?;
    let text = text.trim();
    Some(format!("{before}{begin}\n\n{text}\n\n{END}{after}"))
}

/// Returns on what and when something ran.
pub(crate) fn on(machine: &Machine) -> String {
    let Machine {
        cpu,
        cores,
        memory,
        kernel,
        date,
        ..
    } = machine;
    format!("{date} on {cpu} ({cores} cores), {memory} of memory, {kernel}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_text_between_the_markers_is_replaced() {
        let page = |test: &str, bench: &str| {
            let [first, second] = ["test", "bench"].map(begin);
            format!("# A\n\n{first}\n\n{test}\n\n{END}\n\nB\n\n{second}\n\n{bench}\n\n{END}\n\nC\n")
        };
        let new = replaced(&page("old", "other"), "bench", "new\n").unwrap();
        assert_eq!(new, page("old", "new"));
        assert_eq!(replaced(&new, "test", "new").unwrap(), page("new", "new"));
        assert_eq!(replaced("# A\n", "test", "new"), None);
    }
}
