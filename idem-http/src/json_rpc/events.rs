//! [`EventReader`]: the answer of a call in a stream of events.

use std::borrow::Cow;
use std::mem;

use bytes::Bytes;
use idem_core::json::RawJson;
use serde_json::Value;

use crate::json;

/// Finds the answer of a call in a stream of server-sent events, piece by piece.
///
/// The format is that of the HTML standard, 9.2.6: lines end with CR LF, LF or CR, the `data` lines
/// of an event are joined by LF, an empty line ends the event. An event that the stream breaks off
/// does not count. The reader keeps nothing but the event that it reads.
pub(crate) struct EventReader {
    id: Value,
    /// The longest event.
    limit: usize,
    line: Vec<u8>,
    data: Vec<u8>,
    is_first_line: bool,
    is_after_cr: bool,
}

/// What a piece of a stream brought.
#[derive(Debug, PartialEq)]
pub(crate) enum Progress<T> {
    /// More has to come.
    Open,
    Done(T),
    /// It is over the limit.
    Over,
}

impl EventReader {
    /// Creates a reader for the answer with this `id`.
    pub(crate) fn new(id: Value, limit: usize) -> Self {
        Self {
            id,
            limit,
            line: Vec::new(),
            data: Vec::new(),
            is_first_line: true,
            is_after_cr: false,
        }
    }

    /// Reads on, up to the first answer, and returns its JSON text.
    pub(crate) fn push(&mut self, mut piece: &[u8]) -> Progress<Bytes> {
        while let Some(first) = piece.first() {
            if mem::take(&mut self.is_after_cr) && *first == b'\n' {
                piece = &piece[1..];
                continue;
            }
            let end = piece.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
            let line = &piece[..end.unwrap_or(piece.len())];
            if self.line.len() + self.data.len() + line.len() > self.limit {
                return Progress::Over;
            }
            self.line.extend_from_slice(line);
            let Some(end) = end else {
                break;
            };
            self.is_after_cr = piece[end] == b'\r';
            piece = &piece[end + 1..];
            if let Some(answer) = self.end_line() {
                return Progress::Done(answer);
            }
        }
        Progress::Open
    }

    /// Ends a line; returns the answer, if the line ends the event that has it.
    fn end_line(&mut self) -> Option<Bytes> {
        let line = mem::take(&mut self.line);
        let mut line = &line[..];
        if mem::take(&mut self.is_first_line) {
            line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        }
        if line.is_empty() {
            let data = mem::take(&mut self.data);
            // A client decodes a stream of events in the same way.
            let event = String::from_utf8_lossy(&data);
            return is_answer(&event, &self.id).then(|| event.into_owned().into());
        }
        let value = match line.strip_prefix(b"data") {
            Some([]) => &[][..],
            Some([b':', b' ', value @ ..] | [b':', value @ ..]) => value,
            _ => return None,
        };
        if !self.data.is_empty() {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(value);
        None
    }
}

/// Returns the stream with this `id` in each line that has one in its document; in a stream of events,
/// the document follows `data:`.
pub(crate) fn with_id(stream: &[u8], id: &Value) -> Bytes {
    let lines = stream.split_inclusive(|byte| matches!(byte, b'\r' | b'\n'));
    let edited = lines.map(|line| {
        let text = line.strip_prefix(b"data:").unwrap_or(line);
        let document = RawJson::read(text);
        let has_id = document.is_some_and(|document| matches!(document.member("id"), Ok(Some(_))));
        let with_id = has_id.then(|| json::with_member(text, "/id", id)).flatten();
        with_id.map_or(Cow::Borrowed(line), |text| {
            let end = &line[line.trim_ascii_end().len()..];
            let begin = if line.starts_with(b"data:") {
                "data: "
            } else {
                ""
            };
            [begin.as_bytes(), &text[..], end].concat().into()
        })
    });
    edited.collect::<Vec<_>>().concat().into()
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

    /// Reads a stream in pieces of this size.
    fn read(stream: &str, size: usize, limit: usize) -> Progress<Bytes> {
        let mut reader = EventReader::new(json!(7), limit);
        let pieces = stream.as_bytes().chunks(size);
        let mut read = pieces.map(|piece| reader.push(piece));
        let end = read.find(|progress| *progress != Progress::Open);
        end.unwrap_or(Progress::Open)
    }

    #[test]
    fn the_answer_is_found_among_other_events_in_pieces_of_any_size() {
        let progress = r#"data: {"jsonrpc":"2.0","method":"notifications/progress"}"#;
        let answer = r#"{"jsonrpc":"2.0","id":7,"result":{}}"#;
        for stream in [
            format!("data: {answer}\n\n"),
            format!("id: 1\nevent: message\ndata:{answer}\n\n"),
            format!(": hello\r\n\r\n{progress}\r\n\r\ndata: {answer}\r\n\r\n"),
            format!("\u{feff}data: {answer}\r\r"),
            format!(
                "data\ndata: {{\"id\":7,\n\ndata: {answer}\n\ndata: {{\"id\":7,\"error\":1}}\n\n"
            ),
            "data: {\"jsonrpc\":\"2.0\",\ndata: \"id\":7,\"result\":{}}\n\n".to_owned(),
        ] {
            for size in 1..=stream.len() {
                let Progress::Done(found) = read(&stream, size, 200) else {
                    panic!("{stream:?} in pieces of {size}");
                };
                let found: Vec<u8> = found.into_iter().filter(|byte| *byte != b'\n').collect();
                assert_eq!(found, answer.as_bytes(), "{stream:?}");
            }
        }
    }

    #[test]
    fn no_answer_is_found_where_none_is() {
        for stream in [
            "",
            "data: {\"id\":8,\"result\":1}\n\n",
            "data: {\"id\":7,\"method\":\"sampling\"}\n\n",
            "data: {\"id\":7,\"result\":1}\n",
            "data: not JSON\n\n",
            "id: 1\nretry: 300\ndata: \n\n",
        ] {
            assert_eq!(read(stream, 3, 200), Progress::Open, "{stream:?}");
        }
    }

    #[test]
    fn an_event_over_the_limit_ends_the_reading_and_many_events_do_not() {
        let short = "data: {\"id\":8}\n\n".repeat(100);
        assert_eq!(read(&short, 7, 40), Progress::Open);
        for long in ["x".repeat(41), "data: 12345678901\n".repeat(4)] {
            assert_eq!(read(&long, 7, 40), Progress::Over);
        }
    }
}
