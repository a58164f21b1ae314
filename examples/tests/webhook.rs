//! Drives the real program: the receiver, and its difficult sender.

use std::process::{Command, Output};

fn webhook(arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_webhook"));
    let Output {
        status,
        stdout,
        stderr,
    } = command.args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// Returns the number in the row with this label and with a remark that ends so.
fn number(output: &str, label: &str, remark: &str) -> u64 {
    let row = |line: &&str| line.trim_start().starts_with(label) && line.ends_with(remark);
    let line = output
        .lines()
        .find(row)
        .unwrap_or_else(|| panic!("no {label}: {output}"));
    let number = line.split_whitespace().find_map(|word| {
        let word = word.replace(',', "");
        (word != label).then_some(word)?.parse().ok()
    });
    number.unwrap_or_else(|| panic!("no number: {line}"))
}

#[test]
fn every_event_of_the_file_has_one_effect_or_is_refused() {
    for seed in ["1", "2"] {
        let (status, output, errors) = webhook(&["--seed", seed]);
        assert_eq!(status, 0, "{output}{errors}");
        assert!(output.contains("187 events"), "{output}");
        assert!(output.contains("Every event had one effect"), "{output}");
        let effects = number(&output, "effects", "");
        let heard = number(&output, "200", "  handled");
        let unheard = number(&output, "hung up", "sent again");
        assert!(heard <= effects && heard + unheard >= effects, "{output}");
        assert!((100..187).contains(&effects), "some are refused: {output}");
        assert!(number(&output, "deliveries", "shuffled") > 187, "{output}");
        assert!(
            number(&output, "401", "the signature is wrong") > 0,
            "{output}"
        );
        assert!(number(&output, "200", "not handled") > 0, "{output}");
        assert!(number(&output, "200", "handled before") > 0, "{output}");
    }
}

#[test]
fn one_delivery_at_a_time_is_as_good() {
    let (status, output, errors) = webhook(&["--seed=3", "--concurrency=1"]);
    assert_eq!(status, 0, "{output}{errors}");
}

#[test]
fn a_receiver_that_forgets_is_found_out() {
    let (status, output, _) = webhook(&["--seed=1", "--sabotage"]);
    assert_eq!(status, 1, "{output}");
    assert!(output.contains("had 2 effects"), "{output}");
}

#[test]
fn what_cannot_be_run_is_explained() {
    for (arguments, expected) in [
        (["--store", "oracle://localhost"], "`oracle` is no store"),
        (["--input", "/no/such/file"], "/no/such/file"),
    ] {
        let (status, output, errors) = webhook(&arguments);
        assert_eq!((status, output.as_str()), (2, ""), "{errors}");
        assert!(errors.contains(expected), "{errors}");
    }
}
