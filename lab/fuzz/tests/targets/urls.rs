//! URLs with passwords: what is shown is the same, whatever the password is.

use idem_fuzz::Input;
use idem_stores::ServerUrl;

/// Letters and digits in the same places, and no character in common.
const PASSWORDS: [&str; 2] = ["s3cretWord", "k7bamhXuvz"];

/// Returns URLs made from the bytes, which differ in nothing but the password.
fn with_passwords(bytes: &[u8]) -> [String; 2] {
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
    PASSWORDS.map(|password| format!("{scheme}://{user}:{password}@{rest}"))
}

#[test]
fn mssql() {
    check!("urls::mssql", |bytes: &[u8]| {
        let shown = |url: &str| match idem_mssql::Manager::from_url(url) {
            Ok(manager) => format!("{manager:?}"),
            Err(error) => format!("{error} {error:?}"),
        };
        let _ = shown(&String::from_utf8_lossy(bytes));
        let [one, other] = with_passwords(bytes);
        assert_eq!(shown(&one), shown(&other));
    });
}

#[test]
fn server() {
    check!("urls::server", |bytes: &[u8]| {
        let any = ServerUrl::from(String::from_utf8_lossy(bytes).into_owned());
        assert!(!any.nodes().is_empty());
        let _ = any.without_credentials();
        let [one, other] = with_passwords(bytes).map(|text| {
            let url = ServerUrl::from(text.clone());
            assert_eq!(url.nodes().join(","), text);
            format!("{url:?} {}", url.without_credentials())
        });
        assert_eq!(one, other);
    });
}
