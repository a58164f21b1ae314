use std::path::Path;
use std::process::Command;

use crate::server::Kind;
use crate::tools::connect;
use crate::{Image, Product, Result, Server, Site};

const PORT: u16 = 1433;
/// The image refuses a weaker password.
const PASSWORD: &str = "Idem_Tests_1";

/// Microsoft SQL Server: user `sa`, database `master`. It comes only from a container or the
/// environment: no distribution has a package, and the user has to accept its licence.
pub(crate) static SERVER: Server = Server {
    product: "SQL Server",
    image: Some(Image {
        environment: &[("MSSQL_SA_PASSWORD", PASSWORD), ("MSSQL_PID", "Developer")],
        question: &[
            "sh",
            "-c",
            "/opt/mssql-tools18/bin/sqlcmd -b -C -S 127.0.0.1 -U sa -P \"$MSSQL_SA_PASSWORD\" \
             -h -1 -W -Q \"SET NOCOUNT ON; SELECT SERVERPROPERTY('ProductVersion')\"",
        ],
        licence: Some("ACCEPT_EULA"),
        ..Image::new("mcr.microsoft.com/mssql/server:2022-latest", PORT)
    }),
    ..Server::new("mssql", &SqlServer)
};

#[derive(Debug)]
struct SqlServer;

impl Kind for SqlServer {
    fn advice(&self, _server: &Server) -> String {
        "Run a container engine and accept the licence of its image with `ACCEPT_EULA=Y`".into()
    }

    /// Never called: there are no programs.
    fn command(&self, site: &Site<'_>) -> Command {
        site.command(&["sqlservr"])
    }

    /// The server signs its certificate itself.
    fn url(&self, port: u16) -> String {
        format!("mssql://sa:{PASSWORD}@127.0.0.1:{port}/master?trust_cert=true")
    }

    /// Checks that it takes connections. Only clients with a login can read its version.
    fn probe(&self, url: &str, _programs: &Path) -> Result<Product> {
        connect(url, PORT)?;
        Ok(Product::new(SERVER.product, None))
    }
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
