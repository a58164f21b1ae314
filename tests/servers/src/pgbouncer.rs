use std::path::PathBuf;
use std::process::Command;

use crate::postgres::{Answer, Session};
use crate::server::{in_sbin, on_path};
use crate::url::Url;
use crate::{Error, Product, Result, Server, Site};

const PROGRAMS: &[&str] = &["pgbouncer"];
const PORT: u16 = 6432;

/// PgBouncer in transaction mode, in front of a PostgreSQL. Debian 12's 1.18 knows no prepared statements:
/// one prepared in a transaction may be missing, or be somebody else's, in the next.
#[derive(Clone, Copy, Debug)]
pub struct PgBouncer;

impl Server for PgBouncer {
    fn name(&self) -> &'static str {
        "pgbouncer"
    }

    fn product(&self) -> &'static str {
        "PgBouncer"
    }

    fn packages(&self) -> &'static [&'static str] {
        &["pgbouncer"]
    }

    fn account(&self) -> &'static str {
        "postgres"
    }

    fn programs(&self) -> Option<PathBuf> {
        on_path(PROGRAMS).or_else(|| in_sbin(PROGRAMS))
    }

    fn upstream(&self) -> Option<&'static str> {
        Some("postgres")
    }

    fn prepare(&self, site: &Site<'_>) -> Result<()> {
        let upstream = site.options().upstream();
        let upstream =
            upstream.ok_or_else(|| Error::setting("pgbouncer needs the URL of a postgres"))?;
        let mut text = configuration(&Url::parse(upstream, 5432)?, site.port())?;
        // Of two lines for one setting the last counts.
        for (name, value) in site.options().settings() {
            text += &format!("{name} = {value}\n");
        }
        site.write("pgbouncer.ini", &text).map(drop)
    }

    fn command(&self, site: &Site<'_>) -> Command {
        let mut command = site.command("pgbouncer");
        command.arg(site.path("pgbouncer.ini"));
        command
    }

    fn takes_settings(&self) -> bool {
        true
    }

    fn url(&self, port: u16) -> String {
        format!("postgres://postgres@127.0.0.1:{port}/idem")
    }

    /// First through it to the server behind, then at its own console, where one is allowed in.
    fn probe(&self, url: &str) -> Result<Product> {
        let url = Url::parse(url, PORT)?;
        if let Answer::Refused { code, message } = Session::open(&url, url.database.as_deref())?
            && !code.starts_with("28")
        {
            return Err(Error::failed(message));
        }
        let version = match Session::open(&url, Some("pgbouncer")) {
            Ok(Answer::Welcome(mut session)) => session.query("SHOW VERSION").ok().flatten(),
            _ => None,
        };
        Ok(Product::new(
            self.product(),
            version.and_then(|text| text.split_whitespace().nth(1).map(Into::into)),
        ))
    }
}

/// `auth_type=any`: everybody is let in, and goes on as the user of the database line.
fn configuration(upstream: &Url, port: u16) -> Result<String> {
    let user = upstream.user.as_deref().unwrap_or("postgres");
    let password = upstream.password.as_deref().unwrap_or_default();
    if [user, password, &upstream.host]
        .iter()
        .any(|value| value.contains(['\'', '\n']))
    {
        return Err(Error::setting(
            "pgbouncer: quotes in the URL of the postgres behind it are not supported",
        ));
    }
    let password = if password.is_empty() {
        String::new()
    } else {
        format!(" password='{password}'")
    };
    Ok(format!(
        "[databases]\n\
         * = host='{host}' port={upstream_port} user='{user}'{password}\n\
         [pgbouncer]\n\
         listen_addr = 127.0.0.1\n\
         listen_port = {port}\n\
         unix_socket_dir =\n\
         auth_type = any\n\
         admin_users = postgres\n\
         pool_mode = transaction\n\
         default_pool_size = 20\n\
         max_client_conn = 500\n\
         ignore_startup_parameters = extra_float_digits\n",
        host = upstream.host,
        upstream_port = upstream.port,
    ))
}

#[cfg(test)]
mod tests {
    use super::configuration;
    use crate::url::Url;

    #[test]
    fn the_server_behind_is_named_with_its_log_in() {
        let url = Url::parse("postgres://me:secret@db:5433/idem", 5432).unwrap();
        let text = configuration(&url, 7000).unwrap();
        assert!(
            text.contains("* = host='db' port=5433 user='me' password='secret'\n"),
            "{text}"
        );
        assert!(
            text.contains("listen_port = 7000\n") && text.contains("pool_mode = transaction\n"),
            "{text}"
        );
    }

    #[test]
    fn a_password_that_would_break_the_line_is_refused() {
        let url = Url::parse("postgres://me:a%27b@db/idem", 5432).unwrap();
        assert!(configuration(&url, 7000).is_err());
    }
}
