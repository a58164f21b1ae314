use std::path::Path;

use crate::postgres::{self, psql};
use crate::server::Setting;
use crate::tools::parse;
use crate::{Product, Result, Server};

/// PgBouncer in transaction mode, in front of a PostgreSQL. Debian 12's 1.18 does not know prepared
/// statements: one prepared in a transaction may be missing, or be another client's, in the next.
pub(crate) const SERVER: Server = Server {
    product: "PgBouncer",
    packages: &["pgbouncer"],
    programs: &["pgbouncer"],
    upstream: Some(postgres::SERVER.name),
    url: postgres::SERVER.url,
    // `auth_type=any` accepts every client, as the user of the database line.
    files: &[(
        "pgbouncer.ini",
        "[databases]\n\
         * = host='{host}' port={host_port} {login}\n\
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
    )],
    arguments: "{folder}/pgbouncer.ini",
    // Of two lines for one setting the last counts.
    setting: Setting::Line("{name} = {value}\n"),
    ..Server::new("pgbouncer", probe)
};

/// Checks the server behind it first, then its own console, if that accepts the login.
fn probe(server: &Server, url: &str, programs: &Path) -> Result<Product> {
    psql(url, programs, "SELECT 1")?;
    let mut console = parse(url)?;
    console.set_path("/pgbouncer");
    let version = psql(console.as_str(), programs, "SHOW VERSION").unwrap_or_default();
    let version = version.trim().trim_start_matches("PgBouncer ");
    Ok(Product::returned(server.product, version))
}
