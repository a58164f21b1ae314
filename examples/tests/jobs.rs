//! Drives the real program: two workers of `apalis` with the layer.

use std::process::{Command, Output};

fn jobs(arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jobs"));
    let Output {
        status,
        stdout,
        stderr,
    } = command.args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// Returns the number in the row with this label.
fn number(output: &str, label: &str) -> u64 {
    let mut rows = output.lines().map(str::split_whitespace);
    let found = rows.find_map(|mut words| (words.next() == Some(label)).then(|| words.next()));
    let number = found
        .flatten()
        .unwrap_or_else(|| panic!("no {label}: {output}"));
    number.replace(',', "").parse().unwrap()
}

#[test]
fn every_mail_is_sent_once_by_whichever_worker() {
    for seed in ["1", "2"] {
        let (status, output, errors) = jobs(&["--seed", seed, "--mails=80"]);
        assert_eq!(status, 0, "{output}{errors}");
        assert!(
            output.contains("Every mail was sent exactly once"),
            "{output}"
        );
        assert_eq!(number(&output, "mails"), 80);
        assert!(number(&output, "pushed") > 80, "{output}");
        assert!(number(&output, "failed") > 0, "{output}");
        assert_eq!(number(&output, "sent") + number(&output, "failed"), 80);
        assert!(
            number(&output, "begun") > 80,
            "some are tried again: {output}"
        );
    }
}

#[test]
fn without_the_layer_mails_are_sent_again() {
    let (status, output, errors) = jobs(&["--seed=1", "--mails=40", "--sabotage"]);
    assert_eq!(status, 1, "{output}{errors}");
    assert!(output.contains("was sent 2 times"), "{output}");
}

#[test]
fn a_store_that_cannot_be_used_is_explained() {
    let (status, output, errors) = jobs(&["--store", "oracle://localhost"]);
    assert_eq!((status, output.as_str()), (2, ""), "{errors}");
    assert!(errors.contains("`oracle` is no store"), "{errors}");
}
