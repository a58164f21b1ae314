//! Timeline: the calls on a key as a page for a browser.

use std::fmt::Write as _;

use crate::search::{Bounds, Operation, Verdict, explain};
use crate::spec::Answer;

/// The width of the time, in pixels.
const WIDTH: i64 = 1_000;
/// The height of a lane, in pixels.
const LANE: usize = 26;

const HEAD: &str = "<!doctype html><meta charset=utf-8><title>Timeline</title><style>\
    body{font:14px sans-serif;margin:2em}rect{fill:#9ac;stroke:#357}rect.open{fill:#eee}\
    rect.refused{fill:#e66;stroke:#900}text{font:11px monospace}pre{white-space:pre-wrap}</style>\n";

/// Returns a page with the calls on each of these keys. A call is a bar from its invocation to its
/// answer; an answer that fits nowhere is red, a call without one is grey to the end.
#[must_use]
pub fn page<'a>(
    title: &str,
    keys: impl IntoIterator<Item = (&'a String, &'a Vec<Operation>)>,
    bounds: Bounds,
) -> String {
    let mut text = HEAD.to_owned();
    text += &format!("<h1>{}</h1>\n", escape(title));
    for (key, operations) in keys {
        text += &format!("<h2>key {}</h2>\n", escape(key));
        text += &of_key(operations, bounds);
    }
    text
}

fn of_key(operations: &[Operation], bounds: Bounds) -> String {
    let verdict = explain(operations, bounds);
    let refused = match &verdict {
        Verdict::Refused { at, .. } => Some(*at),
        _ => None,
    };
    let mut order: Vec<usize> = (0..operations.len()).collect();
    order.sort_by_key(|at| operations[*at].invoked);
    let first = order.first().map_or(0, |at| operations[*at].invoked);
    let ends = operations
        .iter()
        .flat_map(|one| [Some(one.invoked), one.returned]);
    let last = ends.flatten().max().unwrap_or(first);
    let lasts = (last - first).max(1);
    let x = |instant: i64| (instant - first).saturating_mul(WIDTH) / lasts;
    // The end of the latest call of each lane.
    let mut lanes: Vec<i64> = Vec::new();
    let mut bars = String::new();
    for at in order {
        let one = &operations[at];
        let end = one.returned.unwrap_or(last);
        let lane = lanes.iter().position(|busy| *busy < one.invoked);
        let lane = lane.unwrap_or_else(|| {
            lanes.push(end);
            lanes.len() - 1
        });
        lanes[lane] = end;
        let class = match (refused == Some(at), &one.answer) {
            (true, _) => "refused",
            (false, Answer::Unknown) => "open",
            (false, _) => "",
        };
        let words = escape(&format!("{:?} → {:?}", one.call.op, one.answer));
        let short = escape(&short(one));
        let (left, top) = (x(one.invoked), lane * LANE);
        let wide = (x(end) - left).max(3);
        let _ = writeln!(
            bars,
            "<rect class='{class}' x='{left}' y='{top}' width='{wide}' height='{}'><title>{words}, \
             {} to {} µs</title></rect><text x='{}' y='{}'>{short}</text>",
            LANE - 8,
            one.invoked - first,
            end - first,
            left + 2,
            top + 13,
        );
    }
    let height = lanes.len() * LANE;
    let mut text = format!(
        "<p>{} calls in {lasts} µs</p>\n<svg width='{}' height='{height}'>\n{bars}</svg>\n",
        operations.len(),
        WIDTH + 300,
    );
    if let Verdict::Refused { states, .. } = verdict {
        text += "<p>The red answer fits none of these states:</p>\n<pre>";
        text += &escape(&states.join("\n"));
        text += "</pre>\n";
    }
    text
}

/// Returns the names of the call and its answer.
fn short(one: &Operation) -> String {
    let name = |text: String| {
        let end = text.find([' ', '{', '(']).unwrap_or(text.len());
        text[..end].to_lowercase()
    };
    let (call, answer) = (format!("{:?}", one.call.op), format!("{:?}", one.answer));
    format!("{} {}", name(call), name(answer))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('\'', "&#39;")
}
