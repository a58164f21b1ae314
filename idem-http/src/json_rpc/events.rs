//! The answer of a call in a stream of events.

use idem_core::json::RawJson;
use serde_json::Value;

/// Returns the JSON text of the answer with this `id` in a whole stream of server-sent events; the
/// last, if there are several.
///
/// The format is that of the HTML standard, 9.2.6: lines end with CR LF, LF or CR, the `data` lines
/// of an event are joined by LF, an empty line ends the event. An event that the stream breaks off
/// does not count.
pub(crate) fn answer_in(stream: &str, id: &Value) -> Option<String> {
    let stream = stream.strip_prefix('\u{feff}').unwrap_or(stream);
    let stream = stream.replace("\r\n", "\n").replace('\r', "\n");
    let mut answer = None;
    let mut data: Vec<&str> = Vec::new();
    for line in stream.split_inclusive('\n') {
        let Some(line) = line.strip_suffix('\n') else {
            break;
        };
        if line.is_empty() {
            let event = std::mem::take(&mut data).join("\n");
            answer = Some(event).filter(|event| is_answer(event, id)).or(answer);
        } else if let Some(value) = line.strip_prefix("data:") {
            data.push(value.strip_prefix(' ').unwrap_or(value));
        }
    }
    answer
}

fn is_answer(event: &str, id: &Value) -> bool {
    let (mut has_id, mut has_outcome) = (false, false);
    let event = RawJson::read(event.as_bytes());
    for (name, value) in event.into_iter().flat_map(RawJson::members) {
        match name.as_str().as_deref() {
            Some("id") => has_id |= value.parse::<Value>().is_ok_and(|found| found == *id),
            Some("result" | "error") => has_outcome = true,
            _ => {}
        }
    }
    has_id && has_outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_answer_is_found_among_other_events() {
        let progress = r#"data: {"jsonrpc":"2.0","method":"notifications/progress"}"#;
        let answer = r#"{"jsonrpc":"2.0","id":7,"result":{}}"#;
        for stream in [
            format!("data: {answer}\n\n"),
            format!("id: 1\nevent: message\ndata:{answer}\n\n"),
            format!(": hello\r\n\r\n{progress}\r\n\r\ndata: {answer}\r\n\r\n"),
            format!("\u{feff}data: {answer}\r\r"),
        ] {
            assert_eq!(
                answer_in(&stream, &json!(7)).as_deref(),
                Some(answer),
                "{stream:?}"
            );
        }
        let lines = "data: {\"id\":7,\ndata: \"result\":1}\n\n";
        assert_eq!(
            answer_in(lines, &json!(7)).as_deref(),
            Some("{\"id\":7,\n\"result\":1}")
        );
    }

    #[test]
    fn no_answer_is_found_where_none_is() {
        for stream in [
            "",
            "data: {\"id\":8,\"result\":1}\n\n",
            "data: {\"id\":7,\"method\":\"sampling\"}\n\n",
            "data: {\"id\":7,\"result\":1}\n",
            "data: not JSON\n\n",
        ] {
            assert_eq!(answer_in(stream, &json!(7)), None, "{stream:?}");
        }
    }
}
