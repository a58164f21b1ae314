use std::path::Path;
use std::process::Command;

use crate::postgres::psql;
use crate::server::Kind;
use crate::tools::{decoded, parse};
use crate::{Error, Product, Result, Server, Site};

/// PgBouncer in transaction mode, in front of a PostgreSQL. Debian 12's 1.18 does not know prepared
/// statements: one prepared in a transaction may be missing, or be another client's, in the next.
pub(crate) static SERVER: Server = Server {
    product: "PgBouncer",
    packages: &["pgbouncer"],
    programs: &["pgbouncer"],
    accounts: &["postgres"],
    upstream: Some("postgres"),
    takes_settings: true,
    ..Server::new("pgbouncer", &PgBouncer)
};

#[derive(Debug)]
struct PgBouncer;

impl Kind for PgBouncer {
    fn prepare(&self, site: &Site<'_>) -> Result<()> {
        let needed = || Error::setting("pgbouncer needs the URL of a postgres");
        let upstream = site.options.upstream.as_deref().ok_or_else(needed)?;
        let mut text = configuration(upstream, site.port)?;
        // Of two lines for one setting the last counts.
        for (name, value) in &site.options.settings {
            text += &format!("{name} = {value}\n");
        }
        site.write("pgbouncer.ini", &text).map(drop)
    }

    fn command(&self, site: &Site<'_>) -> Command {
        let mut command = site.command(&["pgbouncer"]);
        command.arg(site.path("pgbouncer.ini"));
        command
    }

    fn url(&self, port: u16) -> String {
        format!("postgres://postgres@127.0.0.1:{port}/idem")
    }

    /// Checks the server behind it first, then its own console, if that accepts the login.
    fn probe(&self, url: &str, programs: &Path) -> Result<Product> {
        psql(url, programs, "SELECT 1")?;
        let mut console = parse(url)?;
        console.set_path("/pgbouncer");
        let version = psql(console.as_str(), programs, "SHOW VERSION").unwrap_or_default();
        let version = version.trim().trim_start_matches("PgBouncer ");
        Ok(Product::returned("PgBouncer", version))
    }
}

/// `auth_type=any` accepts every client, as the user of the database line.
fn configuration(upstream: &str, port: u16) -> Result<String> {
    let url = parse(upstream)?;
    let user = decoded(Some(url.username())).unwrap_or_else(|| "postgres".into());
    let password = decoded(url.password()).unwrap_or_default();
    let host = url.host_str().unwrap_or("localhost");
    if [&user, &password, host]
        .iter()
        .any(|value| value.contains(['\'', '\n']))
    {
        return Err(Error::setting(
            "pgbouncer: quotes in the URL of the postgres behind it are not supported",
        ));
    }
    let password = match password.as_str() {
        "" => String::new(),
        password => format!(" password='{password}'"),
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
        upstream_port = url.port().unwrap_or(5432),
    ))
}

#[cfg(test)]
mod tests {
    use super::configuration;

    #[test]
    fn the_server_behind_is_named_with_its_log_in() {
        let text = configuration("postgres://me:s%40cret@db:5433/idem", 7000).unwrap();
        let line = "* = host='db' port=5433 user='me' password='s@cret'\n";
        assert!(text.contains(line), "{text}");
        assert!(text.contains("listen_port = 7000\n"), "{text}");
    }

    #[test]
    fn a_password_that_would_break_the_line_is_refused() {
        assert!(configuration("postgres://me:a%27b@db/idem", 7000).is_err());
    }
}
