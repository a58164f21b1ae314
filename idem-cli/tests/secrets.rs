//! What may not be seen: passwords never, results only on request, and keys only as text.

mod support;

use idem_core::Key;
use support::{File, claimed, completed, failed, idem_at, key};

/// No output may have it, in whatever form.
const PASSWORD: &str = "pa55w0rd";

#[test]
fn a_password_is_never_printed() {
    let urls = [
        "sqlite:/nowhere/x.db?password=PW",
        "postgres://me:PW@127.0.0.1:1/idem",
        "postgres://127.0.0.1:1/idem?password=PW",
        "postgres://me:PW@127.0.0.1:port/idem",
        "mysql://me:PW@127.0.0.1:1/idem",
        "mariadb://me:PW@127.0.0.1:1/idem?nonsense=1",
        "mssql://me:PW@127.0.0.1:1/idem",
        "mongodb://me:PW@127.0.0.1:1/idem",
        "mongodb://me:PW@127.0.0.1:port/",
        "redis://:PW@127.0.0.1:1/0",
        "redis-cluster://:PW@127.0.0.1:1,127.0.0.1:2",
        "redis-sentinel://:PW@127.0.0.1:1/main",
        "oracle://me:PW@db",
        "me:PW@db",
    ];
    let commands: &[&[&str]] = &[
        &["ls"],
        &["show", "a:b:c"],
        &["doctor"],
        &["doctor", "--json"],
        &["verify", "--json"],
        &["migrate", "--yes"],
        &["stats"],
        &["watch", "--count", "1"],
        &["--help"],
        &["ls", "--help"],
        &["ls", "--nonsense"],
    ];
    std::thread::scope(|scope| {
        for url in urls {
            scope.spawn(move || {
                let url = url.replace("PW", PASSWORD);
                for command in commands {
                    let variables = [("IDEM_TIMEOUT", "300ms")];
                    let ran = idem_at(&url, &variables, command);
                    let shown = format!("{}{}", ran.out, ran.err);
                    assert!(!shown.contains(PASSWORD), "{command:?}: {shown}");
                    assert!(!shown.contains("panicked"), "{command:?}: {shown}");
                }
                // As an argument, and misplaced.
                for args in [
                    vec!["ls", "--store", &url, "--timeout", "300ms"],
                    vec![&*url, "ls"],
                    vec!["ls", &url],
                    vec!["ls", "--limit", &url],
                    vec!["ls", "--stoer", &url],
                ] {
                    let ran = idem_at("", &[], &args);
                    let shown = format!("{}{}", ran.out, ran.err);
                    assert!(!shown.contains(PASSWORD), "{args:?}: {shown}");
                    assert_ne!(ran.code, 0, "{shown}");
                }
            });
        }
    });
}

#[test]
fn an_unreachable_server_is_one_line_and_exit_code_3() {
    for (url, is_built) in [
        (
            "postgres://me:x@127.0.0.1:1/idem",
            cfg!(feature = "postgres"),
        ),
        ("mysql://me:x@127.0.0.1:1/idem", cfg!(feature = "mysql")),
        ("mssql://me:x@127.0.0.1:1/idem", cfg!(feature = "mssql")),
        ("mongodb://127.0.0.1:1/idem", cfg!(feature = "mongo")),
        ("redis://127.0.0.1:1", cfg!(feature = "redis")),
    ] {
        let ran = idem_at(url, &[], &["ls", "--timeout", "500ms"]);
        match is_built {
            true => ran.ends(3).complains("127.0.0.1:1"),
            false => ran.ends(2).complains("--features"),
        };
    }
}

#[tokio::test]
async fn results_and_metadata_are_masked_unless_revealed() {
    let file = File::new().await;
    completed(&file.store, &key("1")).await;
    failed(&file.store, &key("2")).await;
    drop(claimed(&file.store, &key("3")).await);
    let step = [
        "release",
        "tenant:pay:3",
        "--reason",
        "x",
        "--yes",
        "--token",
        "current",
    ];
    file.json(&step).ends(0);
    for args in [
        &["show", "tenant:pay:1"][..],
        &["show", "tenant:pay:2"],
        &["show", "tenant:pay:3"],
        &["ls"],
        &["stats"],
        &["delete", "tenant:pay:1", "--reason", "x", "--dry-run"],
    ] {
        for ran in [file.idem(args), file.json(args)] {
            assert!(
                !ran.out.contains("s3cret") && !ran.err.contains("s3cret"),
                "{}",
                ran.out
            );
        }
    }
    let shown = file.idem(&["show", "tenant:pay:1"]).ends(0).out;
    assert!(
        shown.contains("body: 25 bytes (--reveal shows them)"),
        "{shown}"
    );
    for (key, secrets) in [
        (
            "tenant:pay:1",
            ["s3cret-trace", "s3cret-header", "s3cret-body"],
        ),
        (
            "tenant:pay:2",
            ["s3cret-trace", "s3cret-message", "s3cret-details"],
        ),
    ] {
        for ran in [
            file.idem(&["show", key, "--reveal"]),
            file.json(&["show", key, "--reveal"]),
        ] {
            let shown = ran.ends(0).out;
            assert!(
                secrets.iter().all(|secret| shown.contains(secret)),
                "{shown}"
            );
        }
    }
    let revealed = file.idem(&["show", "tenant:pay:1", "--reveal"]).out;
    assert!(
        revealed.contains(r#"{"receipt":"s3cret-body"}"#),
        "as it is stored: {revealed}"
    );
}

#[tokio::test]
async fn hostile_keys_are_listed_shown_and_released() {
    let file = File::new().await;
    let long = "x".repeat(255);
    let hostile = [
        "<script>alert(1)</script>",
        "\u{202e}gnirts",
        "שלום",
        "👩\u{200d}🚒",
        long.as_str(),
        "a:b",
        "100%",
        "%3A{x}",
        "'; DROP TABLE idem_records; --",
        "-rf",
        " ",
    ];
    for id in hostile {
        let key = Key::new(id, "pay", id).unwrap();
        drop(claimed(&file.store, &key).await);
        let shown = file.json(&["show", "--", id, "pay", id]).ends(0).value();
        assert_eq!(shown["record"]["id"], id);
        let path = file.json(&["show", "--", &key.path()]).ends(0).value();
        assert_eq!(path["record"]["token"], shown["record"]["token"]);
    }
    let listed = file.json(&["ls", "--all"]).ends(0).lines();
    assert_eq!(listed.len(), hostile.len());
    let table = file.idem(&["ls", "--all"]).ends(0).out;
    assert_eq!(table.lines().count(), hostile.len() + 1);
    assert!(
        !table.contains('\u{202e}') && table.contains("\\u{202e}"),
        "{table}"
    );
    for id in hostile {
        let key = Key::new(id, "pay", id).unwrap().path();
        let token = ["--reason", "x", "--yes", "--token", "current"];
        let args: Vec<_> = ["release"]
            .into_iter()
            .chain(token)
            .chain(["--", &key])
            .collect();
        file.idem(&args).ends(0);
    }
    assert_eq!(file.json(&["ls", "--all"]).ends(0).lines().len(), 0);
}
