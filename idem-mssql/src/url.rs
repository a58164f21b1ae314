//! The URL of a connection.

use idem_core::Result;
use idem_core::backend::{check_scheme, misread};
use idem_sql::schema::misconfigured;
use tiberius::{AuthMethod, Config, EncryptionLevel};
use url::Url;

const DEFAULT_PORT: u16 = 1433;

const FORM: &str = "mssql://user:password@host:port/database?encrypt=on&trust_cert=false";

/// Parses `mssql://user:password@host:port/database?…` into the driver's configuration.
pub(crate) fn parse(text: &str) -> Result<Config> {
    parse_as_built(text, cfg!(feature = "tls"))
}

/// Parses it as a build with TLS does, or as one without.
fn parse_as_built(text: &str, has_tls: bool) -> Result<Config> {
    check_scheme(text, &["mssql", "sqlserver"], FORM)?;
    let url = Url::parse(text).map_err(|source| misread(FORM, source))?;
    if url.fragment().is_some() {
        return Err(misconfigured(
            "the URL has a fragment; write a `#` in a name or password as %23".to_owned(),
        ));
    }
    let host = url.host_str().filter(|host| !host.is_empty());
    let host = host.ok_or_else(|| misconfigured(format!("the URL names no host; it is {FORM}")))?;
    let mut config = Config::new();
    config.host(decoded("host", host.trim_matches(['[', ']']))?);
    config.port(url.port().unwrap_or(DEFAULT_PORT));
    config.application_name("idem");
    config.authentication(login(&url)?);
    if let Some(database) = database(&url)? {
        config.database(database);
    }
    parameters(&url, has_tls, &mut config)?;
    Ok(config)
}

fn login(url: &Url) -> Result<AuthMethod> {
    let user = decoded("user", url.username())?;
    if user.is_empty() {
        return Err(misconfigured(format!(
            "the URL names no user; it is {FORM}, and a `?` in a name or password is %3F"
        )));
    }
    let password = decoded("password", url.password().unwrap_or_default())?;
    Ok(AuthMethod::sql_server(user, password))
}

/// Returns the database; `None` stands for the user's default database.
fn database(url: &Url) -> Result<Option<String>> {
    let path = url.path().trim_start_matches('/');
    if path.is_empty() {
        return Ok(None);
    }
    if path.contains('/') {
        return Err(misconfigured(
            "the URL's path is more than a database; write a `/` in its name as %2F".to_owned(),
        ));
    }
    decoded("database", path).map(Some)
}

fn parameters(url: &Url, has_tls: bool, config: &mut Config) -> Result<()> {
    let (mut encryption, mut trust) = ("on".to_owned(), false);
    for (name, value) in url.query_pairs() {
        match (&*name, &*value) {
            ("encrypt", "on" | "off" | "strict") => encryption = value.into_owned(),
            ("encrypt", _) => {
                return Err(misconfigured(
                    "the URL's `encrypt` is neither `on`, `off` nor `strict`".to_owned(),
                ));
            }
            ("trust_cert", "true" | "false") => trust = value == "true",
            ("trust_cert", _) => {
                return Err(misconfigured(
                    "the URL's `trust_cert` is neither `true` nor `false`".to_owned(),
                ));
            }
            // An unescaped `?` in the login makes a parameter of the rest of the password.
            (name, _) if !url.query().unwrap_or_default().contains('@') => {
                return Err(misconfigured(format!(
                    "the URL's parameter `{name}` is unknown; there are `encrypt` and `trust_cert`"
                )));
            }
            _ => {
                return Err(misconfigured(
                    "the URL has an unknown parameter; there are `encrypt` and `trust_cert`, and a \
                     `?` in a name or password is %3F"
                        .to_owned(),
                ));
            }
        }
    }
    config.encryption(level(&encryption, has_tls)?);
    if trust {
        config.trust_cert();
    }
    Ok(())
}

/// Parses `encrypt`. `off` encrypts nothing, not even the password: the driver's own `Off` would
/// encrypt the login and fail where the server cannot.
fn level(encryption: &str, has_tls: bool) -> Result<EncryptionLevel> {
    match encryption {
        "off" => Ok(EncryptionLevel::NotSupported),
        _ if !has_tls => Err(misconfigured(
            "the URL wants encryption (the default), and idem-mssql was built without its feature `tls`; turn it \
             on, or say `encrypt=off` on a network that you trust"
                .to_owned(),
        )),
        "strict" => Ok(EncryptionLevel::Strict),
        _ => Ok(EncryptionLevel::Required),
    }
}

/// Decodes `%40` and the like.
fn decoded(what: &str, text: &str) -> Result<String> {
    let invalid = || {
        misconfigured(format!(
            "the URL's {what} is not valid percent-encoded UTF-8"
        ))
    };
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let [high, low, tail @ ..] = rest else {
            return Err(invalid());
        };
        let digit = |byte: &u8| char::from(*byte).to_digit(16).ok_or_else(invalid);
        let byte = digit(high)? * 16 + digit(low)?;
        bytes.push(u8::try_from(byte).map_err(|_| invalid())?);
        rest = tail;
    }
    String::from_utf8(bytes).map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use idem_core::ErrorKind;

    use super::*;

    /// Returns the driver's settings, as far as they are visible.
    fn shown(url: &str) -> String {
        format!("{:?}", parse(url).unwrap())
    }

    #[test]
    fn parts_are_decoded() {
        let url = "mssql://s%40a:p%3A%2F%23%C3%A9@db.example:1500/my%2Fshop?encrypt=off";
        let config = parse(url).unwrap();
        assert_eq!(config.get_addr(), "db.example:1500");
        let shown = shown(url);
        assert!(
            shown.contains("my/shop") && shown.contains("s@a"),
            "{shown}"
        );
        let expected = AuthMethod::sql_server("s@a", "p:/#é");
        assert!(shown.contains(&format!("{expected:?}")), "{shown}");
    }

    #[test]
    fn an_omitted_option_has_a_default() {
        let config = parse("sqlserver://sa@localhost?encrypt=off").unwrap();
        assert_eq!(config.get_addr(), "localhost:1433");
        let shown = shown("mssql://sa@[::1]/?encrypt=off");
        assert!(shown.contains("\"::1\""), "{shown}");
        assert!(shown.contains("database: None"), "{shown}");
        assert!(shown.contains("bypass: false"), "{shown}");
    }

    #[test]
    fn encryption_is_on_unless_turned_off() {
        for (parameters, level, bypass) in [
            ("", "Required", false),
            ("?encrypt=on&trust_cert=true", "Required", true),
            ("?encrypt=strict", "Strict", false),
            ("?encrypt=off&trust_cert=false", "NotSupported", false),
        ] {
            let url = format!("mssql://sa:x@localhost/master{parameters}");
            let shown = format!("{:?}", parse_as_built(&url, true).unwrap());
            assert!(shown.contains(&format!("encryption: {level}")), "{shown}");
            assert!(shown.contains(&format!("bypass: {bypass}")), "{shown}");
        }
    }

    #[test]
    fn encryption_without_the_feature_is_refused() {
        for parameters in ["", "?encrypt=on", "?encrypt=strict"] {
            let url = format!("mssql://sa:x@localhost/master{parameters}");
            let error = parse_as_built(&url, false).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misconfigured);
            assert!(error.to_string().contains("feature `tls`"), "{error}");
        }
        assert!(parse_as_built("mssql://sa:x@localhost/master?encrypt=off", false).is_ok());
    }

    #[test]
    fn an_unreadable_url_is_refused_without_the_password() {
        for (url, named) in [
            (
                "mssql://sa:secret@localhost/master?encrypt=maybe",
                "`encrypt`",
            ),
            (
                "mssql://sa:secret@localhost/master?trust_cert=1",
                "`trust_cert`",
            ),
            (
                "mssql://sa:secret@localhost/master?sslmode=off",
                "`sslmode`",
            ),
            ("mssql://sa:1?secret@localhost/a", "%3F"),
            ("mssql://sa:1?secret=x@localhost/a", "%3F"),
            ("mssql://sa:secret@localhost/a/b", "database"),
            ("mssql://sa:secret#x@localhost/a", ""),
            ("mssql://sa:secret%4@localhost/a", "password"),
            ("mssql://sa:secret%ff@localhost/a", "password"),
            ("mssql://:secret@localhost/a", "user"),
            ("mssql:///a", "host"),
            ("postgres://sa:secret@localhost/a", "idem-postgres"),
            ("sa:secret@localhost", ""),
            ("mssql://sa:secret@localhost:port/a", "URL"),
        ] {
            let error = parse(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misconfigured, "{url}");
            assert!(error.to_string().contains(named), "{url}: {error}");
            assert!(!format!("{error:?}").contains("secret"), "{error:?}");
        }
    }
}
