//! The answers that a store keeps whose writes are visible while they wait for other servers.

use std::collections::HashSet;
use std::path::Path;

use idem_core::BoxError;

use crate::history::Line;
use crate::spec::Answer;

/// Removes from a history the calls whose answers promise nothing: that a key is in flight or free,
/// that a claim is lost, a checkpoint of the claim's own. They rest on what the leader has, which
/// other servers may lack. None of these calls changes a key, so what is left has to be explained
/// as it is. Answers after the last fault stay: nothing they rest on is lost any more.
pub(crate) fn keep_promised(file: &Path) -> Result<(), BoxError> {
    let text = std::fs::read_to_string(file)?;
    Ok(std::fs::write(file, promised(&text)?)?)
}

fn promised(text: &str) -> Result<String, serde_json::Error> {
    let lines: Vec<Line> = text
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?;
    let promises_nothing = |answer: &Answer| {
        matches!(
            answer,
            Answer::InFlight { .. } | Answer::Nothing | Answer::Lost | Answer::Checkpoint { .. }
        )
    };
    let faults = lines.iter().filter_map(|line| match line {
        Line::Nem(fault) => Some(fault.c1),
        _ => None,
    });
    let last = faults.max().unwrap_or(i64::MAX);
    let removed: HashSet<u64> = lines
        .iter()
        .filter_map(|line| match line {
            Line::Ret(answer) if answer.c1 <= last && promises_nothing(&answer.answer) => {
                Some(answer.id)
            }
            _ => None,
        })
        .collect();
    let mut left = String::new();
    for (line, text) in lines.iter().zip(text.lines()) {
        let is_removed = match line {
            Line::Inv(invocation) => removed.contains(&invocation.id),
            Line::Ret(answer) => removed.contains(&answer.id),
            Line::Head(_) | Line::Nem(_) => false,
        };
        if !is_removed {
            left += text;
            left.push('\n');
        }
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::promised;

    #[test]
    fn only_calls_that_promise_nothing_are_removed() {
        let history = concat!(
            r#"{"t":"head","v":1,"cell":"x","seed":1,"quantum":1}"#,
            "\n",
            r#"{"t":"inv","id":1,"c0":1,"k":"a","op":"get"}"#,
            "\n",
            r#"{"t":"inv","id":2,"c0":2,"k":"a","op":"get"}"#,
            "\n",
            r#"{"t":"ret","id":1,"c1":3,"ans":"nothing"}"#,
            "\n",
            r#"{"t":"ret","id":2,"c1":4,"now":5,"ans":"completed","tok":1,"seal":2}"#,
            "\n",
            r#"{"t":"inv","id":3,"c0":6,"k":"a","op":"release","att":1,"tok":1}"#,
            "\n",
        );
        let fault = concat!(
            r#"{"t":"nem","what":"x","on":"y","state":"installed","proof":"z","c0":1,"c1":"#,
            "2}\n"
        );
        let after = promised(&format!("{history}{fault}")).unwrap();
        assert!(after.contains("nothing"), "{after}");
        let left = promised(history).unwrap();
        let ids: Vec<_> = left
            .lines()
            .map(|line| line.contains(r#""id":1"#))
            .collect();
        assert_eq!(ids, [false; 4], "{left}");
        assert!(left.contains(r#""op":"release""#) && left.contains(r#""seal":2"#));
    }
}
