//! Confirmations, and who gives them.

use std::io::{self, BufRead, IsTerminal, Write};

use crate::failure::{Failure, Result};

/// Asks for a confirmation, unless it was given with `--yes`.
///
/// # Errors
///
/// A refusal when the answer is not `y` or `yes`; a usage error where nobody can be asked.
pub(crate) fn confirm(question: &str, is_given: bool) -> Result<()> {
    if is_given {
        return Ok(());
    }
    if !is_attended() {
        return Err(Failure::usage(format!(
            "{question} There is no terminal to confirm it; add `--yes`, or `--dry-run` to see what it would do"
        )));
    }
    let mut stderr = io::stderr().lock();
    write!(stderr, "{question} [y/N] ")?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    match is_yes(&answer) {
        true => Ok(()),
        false => Err(Failure::refused("not confirmed; nothing was changed")),
    }
}

/// Returns whether somebody can be asked.
pub(crate) fn is_attended() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}

/// Returns the person of a forced step: the one named, else `user@host`.
pub(crate) fn who(named: Option<&str>) -> String {
    let variable = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
    named.map(str::to_owned).unwrap_or_else(|| {
        let user = variable("USER").or_else(|| variable("USERNAME"));
        let user = user.unwrap_or_else(|| "unknown".to_owned());
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
        let host = host.map(|host| host.trim().to_owned());
        let host = host.filter(|host| !host.is_empty());
        let host = host.or_else(|| variable("HOSTNAME").or_else(|| variable("COMPUTERNAME")));
        format!("{user}@{}", host.unwrap_or_else(|| "unknown".to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_answer_confirms() {
        for yes in ["y\n", "YES", " yes "] {
            assert!(is_yes(yes));
        }
        for no in ["", "\n", "n", "yep", "no"] {
            assert!(!is_yes(no));
        }
    }

    #[test]
    fn a_name_is_taken_as_it_is() {
        assert_eq!(who(Some("ada")), "ada");
        assert!(who(None).contains('@'));
    }
}
