use std::path::Path;

use crate::server::Image;
use crate::tools::connect;
use crate::{Product, Result, Server};

const PORT: u16 = 1433;

/// Microsoft SQL Server: user `sa`, database `master`. It comes only from a container or the
/// environment: no distribution has a package, and the user has to accept its licence. It signs its
/// certificate itself. The image refuses a weaker password.
pub(crate) const SERVER: Server = Server {
    product: "SQL Server",
    url: "mssql://sa:Idem_Tests_1@127.0.0.1:{port}/master?trust_cert=true",
    image: Some(Image {
        environment: &[
            ("MSSQL_SA_PASSWORD", "Idem_Tests_1"),
            ("MSSQL_PID", "Developer"),
        ],
        question: "/opt/mssql-tools18/bin/sqlcmd -b -C -S 127.0.0.1 -U sa -P \"$MSSQL_SA_PASSWORD\" \
                   -h -1 -W -Q \"SET NOCOUNT ON; SELECT SERVERPROPERTY('ProductVersion')\"",
        licence: Some("ACCEPT_EULA"),
        ..Image::new("mcr.microsoft.com/mssql/server:2022-latest", PORT)
    }),
    ..Server::new("mssql", probe)
};

/// Checks that it takes connections. Only clients with a login can read its version.
fn probe(server: &Server, url: &str, _programs: &Path) -> Result<Product> {
    connect(url, PORT)?;
    Ok(Product::new(server.product, None))
}

#[cfg(test)]
mod tests {
    use super::SERVER;

    #[test]
    fn no_licence_is_accepted_on_anybodys_behalf() {
        let image = SERVER.image.unwrap();
        assert_eq!(image.licence, Some("ACCEPT_EULA"));
        let mut given = image.environment.iter();
        assert!(given.all(|(name, _)| *name != "ACCEPT_EULA"));
    }
}
