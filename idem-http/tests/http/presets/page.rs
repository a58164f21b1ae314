//! The page of a preset: its table, and the transcripts.

use std::path::PathBuf;

use super::curl::Said;
use super::row::{Does, Expected};

/// What a row showed.
pub(super) struct Shown {
    pub(super) title: &'static str,
    pub(super) commands: Vec<(String, Said)>,
    status: u16,
    does: Does,
}

impl Shown {
    pub(super) fn new(expected: &Expected, commands: Vec<(String, Said)>) -> Self {
        Self {
            title: expected.title(),
            commands,
            status: expected.status,
            does: expected.does,
        }
    }
}

/// Writes the page, or compares it.
#[track_caller]
pub(super) fn check(name: &str, lifetime: &str, rows: &[Shown]) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("src/presets")
        .join(format!("{name}.md"));
    let page = written(lifetime, rows);
    if std::env::var_os("IDEM_BLESS").is_some() {
        std::fs::write(path, page).unwrap();
    } else {
        let there = std::fs::read_to_string(path).unwrap();
        assert!(
            there == page,
            "{name}: the page differs; IDEM_BLESS=1 writes it again"
        );
    }
}

fn written(lifetime: &str, rows: &[Shown]) -> String {
    let mut page =
        String::from("# Conformance\n\n| request | answer | the server |\n| --- | --- | --- |\n");
    for row in rows {
        let does = match row.does {
            Does::Runs => "handles it",
            Does::Replays => "replays",
            Does::Refuses => "refuses",
        };
        page += &format!("| {} | `{}` | {does} |\n", row.title, row.status);
    }
    page += &format!(
        "\nThe lifetime that it advertises by default: `{lifetime}`.\n\n# Transcripts\n\n"
    );
    page += "Dates and pauses are replaced by fixed ones.\n";
    for row in rows {
        page += &format!(
            "\n**{}{}**\n\n```text\n",
            row.title[..1].to_uppercase(),
            &row.title[1..]
        );
        let steps: Vec<String> = row
            .commands
            .iter()
            .map(|(command, said)| format!("$ {command}\n{}\n", said.0.trim_end()))
            .collect();
        page += &steps.join("\n");
        page += "```\n";
    }
    page
}
