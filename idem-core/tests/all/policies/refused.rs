//! Bad files: where, which key, why; and the earlier policies still hold.

use std::path::Path;

use idem_core::Policies;
use idem_core::engine::PolicyFile;

use super::support::{Folder, lease, lease_of};

/// The text, then line and column, key and reason.
type Bad = (
    &'static str,
    Option<(usize, usize)>,
    Option<&'static str>,
    &'static str,
);

const TOML: &[Bad] = &[
    (
        "[default]\nlease = 30",
        Some((2, 1)),
        Some("default.lease"),
        "invalid type: integer `30`, expected a duration: a whole number and a unit (ms, s, m, h or d), such as \"30s\"",
    ),
    (
        "[default]\n  lease = \"-1s\"",
        Some((2, 3)),
        Some("default.lease"),
        "invalid value: string \"-1s\", expected a duration: a whole number and a unit (ms, s, m, h or d), such as \"30s\"",
    ),
    (
        "[default]\nlease = 2026-01-01",
        Some((2, 1)),
        Some("default.lease"),
        "invalid type: map, expected a duration: a whole number and a unit (ms, s, m, h or d), such as \"30s\"",
    ),
    (
        "[default]\nlease = \"31d\"",
        Some((2, 1)),
        Some("default.lease"),
        "the lease is 2678400 s, at most 2592000 s are allowed",
    ),
    (
        "[default]\nlease = \"0s\"",
        Some((2, 1)),
        Some("default.lease"),
        "the lease is zero; it is at least one millisecond",
    ),
    (
        "[default]\nretention = \"3651d\"",
        Some((2, 1)),
        Some("default.retention"),
        "the retention is 315446400 s, at most 315360000 s are allowed",
    ),
    (
        "[default]\nretry_timeout = \"0s\"",
        Some((2, 1)),
        Some("default.retry_timeout"),
        "the retry_timeout is zero; it is the time that the store is given to answer",
    ),
    (
        "[default]\nleese = \"3s\"",
        Some((2, 1)),
        Some("default.leese"),
        "there is no key `leese`; did you mean `lease`?",
    ),
    (
        "[default]\nlease = \"1s\"\nlease = \"2s\"",
        Some((3, 1)),
        Some("lease"),
        "duplicate key",
    ),
    (
        "[operations.a]\nlease = \"1s\"\n\n[operations.a]",
        Some((4, 13)),
        Some("a"),
        "duplicate key",
    ),
    (
        "[operations.\"pay.*.x\"]\nlease = \"1s\"",
        Some((1, 13)),
        Some("operations.\"pay.*.x\""),
        "a `*` stands at the end only",
    ),
    (
        "[operations.\"*\"]\nlease = \"1s\"",
        Some((1, 13)),
        Some("operations.\"*\""),
        "what holds for every operation goes to the table `default`",
    ),
    (
        "operations.\"\".lease = \"1s\"",
        Some((1, 12)),
        Some("operations.\"\""),
        "key operation is empty; it needs 1 to 128 bytes",
    ),
    (
        "[operations.\"é\"]\npreset = \"biuld\"",
        Some((2, 1)),
        Some("operations.\"é\".preset"),
        "there is no preset `biuld`; did you mean `build`?",
    ),
    (
        "[operations.x]\npreset = \"nightly\"",
        Some((2, 1)),
        Some("operations.x.preset"),
        "there is no preset `nightly`; there are default, at_most_once, build, fix, deploy, delete, api_write, webhook, batch",
    ),
    (
        "[operations.x]\npreset = 1",
        Some((2, 1)),
        Some("operations.x.preset"),
        "this is the name of a preset",
    ),
    (
        "[operations.x]\npreset = \"batch\"",
        Some((2, 1)),
        Some("operations.x.preset"),
        "`batch` needs `run`, how long it is expected to run",
    ),
    (
        "[operations.x]\nrun = \"3h\"",
        Some((2, 1)),
        Some("operations.x.run"),
        "this goes with the preset `batch` only",
    ),
    (
        "[operations.x]\npreset = \"batch\"\nrun = \"3650d\"",
        Some((3, 1)),
        Some("operations.x.run"),
        "the retention is 315446400 s, at most 315360000 s are allowed",
    ),
    (
        "[operations.x]\nwindow = \"1s\"\nretention = \"1s\"",
        Some((2, 1)),
        Some("operations.x.window"),
        "this is the retention by another name; give one of them",
    ),
    (
        "[operations.x]\non_stale = \"never\"",
        Some((2, 1)),
        Some("operations.x.on_stale"),
        "unknown variant `never`, expected `take_over` or `fail`",
    ),
    (
        "[operations.x.on_busy.wait]\nlimit = \"5\"",
        Some((1, 15)),
        Some("operations.x.on_busy"),
        "invalid value: string \"5\", expected a duration: a whole number and a unit (ms, s, m, h or d), such as \"30s\"",
    ),
    (
        "[operations.x]\nmax_request_bytes = -1",
        Some((2, 1)),
        Some("operations.x.max_request_bytes"),
        "invalid value: integer `-1`, expected usize",
    ),
    (
        "[operations.x]\nmax_result_bytes = nan",
        Some((2, 20)),
        Some("operations.x.max_result_bytes"),
        "this is not a number",
    ),
    (
        "operations.x = 3",
        Some((1, 12)),
        Some("operations.x"),
        "this is a table",
    ),
    (
        "lease = \"3s\"",
        Some((1, 1)),
        Some("lease"),
        "there is no key `lease`; there are default, operations",
    ),
    (
        "",
        Some((1, 1)),
        None,
        "it has no policies: there is nothing in `default` and `operations`",
    ),
    (
        "[default]",
        Some((1, 1)),
        None,
        "it has no policies: there is nothing in `default` and `operations`",
    ),
    (
        "default]",
        Some((1, 8)),
        None,
        "key with no value, expected `=`",
    ),
];

const YAML: &[Bad] = &[
    (
        "default:\n  lease: 30",
        Some((2, 3)),
        Some("default.lease"),
        "invalid type: integer `30`, expected a duration: a whole number and a unit (ms, s, m, h or d), such as \"30s\"",
    ),
    (
        "default:\n  lease:",
        Some((2, 3)),
        Some("default.lease"),
        "invalid type: null, expected a duration: a whole number and a unit (ms, s, m, h or d), such as \"30s\"",
    ),
    (
        "default: {lease: 31d}",
        Some((1, 11)),
        Some("default.lease"),
        "the lease is 2678400 s, at most 2592000 s are allowed",
    ),
    (
        "default:\n  leese: 1s",
        Some((2, 3)),
        Some("default.leese"),
        "there is no key `leese`; did you mean `lease`?",
    ),
    (
        "default:\n  lease: 1s\n  lease: 2s",
        Some((3, 3)),
        Some("default.lease"),
        "the key `lease` is given twice",
    ),
    (
        "operations:\n  p.c: {lease: 1s}\n  p.c: {}",
        Some((3, 3)),
        Some("operations.\"p.c\""),
        "the key `p.c` is given twice",
    ),
    (
        "operations:\n  x: {preset: build, window: 1w}",
        Some((2, 22)),
        Some("operations.x.window"),
        "invalid value: string \"1w\", expected a duration: a whole number and a unit (ms, s, m, h or d), such as \"30s\"",
    ),
    (
        "operations:\n  x:\n    on_failed: explode",
        Some((3, 5)),
        Some("operations.x.on_failed"),
        "unknown variant `explode`, expected `replay` or `retry`",
    ),
    (
        "operations:\n  x: !tag {lease: 1s}",
        Some((2, 6)),
        Some("operations.x"),
        "invalid type: enum, expected a table, a list, a text, a number, or true or false",
    ),
    (
        "operations:\n  x: 3",
        Some((2, 3)),
        Some("operations.x"),
        "this is a table",
    ),
    ("- default", Some((1, 1)), None, "this is a table"),
    (
        "# nothing",
        Some((1, 1)),
        None,
        "it has no policies: there is nothing in `default` and `operations`",
    ),
    (
        "default:",
        Some((1, 1)),
        None,
        "it has no policies: there is nothing in `default` and `operations`",
    ),
    (
        "default:\n\tlease: 1s",
        Some((2, 1)),
        Some("default"),
        "found character that cannot start any token, while scanning for the next token",
    ),
    (
        "a: 1\n---\nb: 2",
        None,
        None,
        "deserializing from YAML containing more than one document is not supported",
    ),
];

fn refuses(name: &str, good: &str, bad: &[Bad]) {
    let folder = Folder::new();
    let file = folder.load(name, good);
    let before = file.policies();
    for (text, position, key, reason) in bad {
        folder.write(name, text);
        let error = file.reload().unwrap_err();
        assert_eq!(error.file(), Some(file.path()), "{text}");
        assert_eq!(error.line().zip(error.column()), *position, "{text}");
        assert_eq!(error.key(), *key, "{text}");
        assert_eq!(error.reason(), *reason, "{text}");
        assert_eq!(file.policies(), before, "{text}");
        assert!(PolicyFile::load(file.path()).is_err());
        assert!(Policies::from_file(file.path()).is_err());
    }
    folder.write(name, good);
    assert!(!file.reload().unwrap());
}

#[test]
fn bad_toml_is_refused_with_line_key_and_reason_and_the_old_policies_stay() {
    refuses("p.toml", &lease(7), TOML);
}

#[test]
fn bad_yaml_is_refused_with_line_key_and_reason_and_the_old_policies_stay() {
    refuses("p.yml", "default: {lease: 7s}", YAML);
}

#[test]
fn an_error_reads_as_a_position_a_key_and_a_reason() {
    let folder = Folder::new();
    let path = folder.write("p.toml", "\n[operations.\"a.b\"]\n lease = \"0s\"");
    let reason = "the lease is zero; it is at least one millisecond";
    assert_eq!(
        PolicyFile::load(&path).unwrap_err().to_string(),
        format!("{}:3:2: operations.\"a.b\".lease: {reason}", path.display())
    );
    let error = Policies::from_toml("default.lease = \"0s\"").unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("line 1, column 9: default.lease: {reason}")
    );
    assert_eq!(error.file(), None);
}

#[test]
fn a_file_that_is_not_there_or_too_large_or_of_another_form_is_refused() {
    let folder = Folder::new();
    let file = folder.load("p.toml", &lease(7));
    std::fs::remove_file(file.path()).unwrap();
    let error = file.reload().unwrap_err();
    assert!(error.reason().starts_with("it cannot be read: "), "{error}");
    assert!(std::error::Error::source(&error).is_some());
    folder.write("p.toml", &format!("{}#{}", lease(8), "x".repeat(1 << 20)));
    assert_eq!(
        file.reload().unwrap_err().reason(),
        "it has more than 1 MiB"
    );
    std::fs::write(file.path(), [0xff, 0xfe]).unwrap();
    assert!(file.reload().is_err());
    assert_eq!(lease_of(&file), 7);
    for name in ["p.json", "p", ".toml"] {
        let error = PolicyFile::load(folder.write(name, &lease(7))).unwrap_err();
        assert_eq!(
            error.reason(),
            "a file of policies ends in .toml, .yaml or .yml"
        );
        assert_eq!(error.file(), Some(Path::new(&folder.path(name))));
    }
}
