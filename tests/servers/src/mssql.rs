use std::path::Path;

use crate::server::Image;
use crate::tools::connect;
use crate::{Product, Result, Server};

const PORT: u16 = 1433;

/// Microsoft SQL Server: user `sa`, database `master`. It comes only from a container or the
/// environment: no distribution has a package, and the user has to accept its licence. It signs its
/// certificate itself.
pub(crate) const SERVER: Server = Server {
    product: "SQL Server",
    url: "mssql://sa:Idem_Tests_1@127.0.0.1:{port}/master?trust_cert=true",
    image: Some(Image {
        port: PORT,
        licence: Some("ACCEPT_EULA"),
    }),
    ..Server::new("mssql", probe)
};

/// Checks that it takes connections. Only clients with a login can read its version.
fn probe(server: &Server, url: &str, _programs: &Path) -> Result<Product> {
    connect(url, PORT)?;
    Ok(Product::new(server.product, None))
}
