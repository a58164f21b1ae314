//! URLs with passwords, which no error shows.

use idem_fuzz::Input;
use idem_stores::ServerUrl;

use crate::RANDOM;

const PASSWORD: &str = "s3cretWord";

/// Returns a URL with the password, made from the bytes.
fn with_password(bytes: &[u8]) -> String {
    let mut input = Input(bytes);
    let scheme = [
        "mssql",
        "sqlserver",
        "postgres",
        "mysql",
        "redis",
        "mongodb",
    ];
    let scheme = scheme[input.below(6)];
    let user = input.text();
    let rest = String::from_utf8_lossy(input.rest()).into_owned();
    format!("{scheme}://{user}:{PASSWORD}@{rest}")
}

#[test]
fn mssql() {
    bolero::check!().with_iterations(RANDOM).for_each(|bytes| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        if text.contains(PASSWORD) {
            // It is a name elsewhere.
            return;
        }
        for text in [text, with_password(bytes)] {
            match idem_mssql::Manager::from_url(&text) {
                Ok(manager) => assert!(!format!("{manager:?}").contains(PASSWORD)),
                Err(error) => {
                    let shown = format!("{error} {error:?}");
                    assert!(!shown.contains(PASSWORD), "{shown}");
                }
            }
        }
    });
}

#[test]
fn server() {
    bolero::check!().with_iterations(RANDOM).for_each(|bytes| {
        let any = ServerUrl::from(String::from_utf8_lossy(bytes).into_owned());
        assert!(!any.nodes().is_empty());
        let _ = any.without_credentials();
        let text = with_password(bytes);
        if text.matches(PASSWORD).count() > 1 {
            // It is a name elsewhere.
            return;
        }
        let url = ServerUrl::from(text.clone());
        let shown = format!("{url:?} {}", url.without_credentials());
        assert!(!shown.contains(PASSWORD), "{text}: {shown}");
        let nodes = url.nodes().join(",");
        assert_eq!(nodes, text);
    });
}
