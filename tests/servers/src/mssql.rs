use std::path::PathBuf;
use std::process::Command;

use crate::url::Url;
use crate::{Error, Image, Product, Result, Server, Site};

mod prelogin;

const PORT: u16 = 1433;
/// The image refuses a weaker one.
const PASSWORD: &str = "Idem_Tests_1";
const LICENCE: &str = "ACCEPT_EULA";

/// Microsoft SQL Server: user `sa`, database `master`. From a container or the environment only: no package of a
/// distribution brings it, and its licence is for whoever runs it to accept.
#[derive(Clone, Copy, Debug)]
pub struct SqlServer;

impl Server for SqlServer {
    fn name(&self) -> &'static str {
        "mssql"
    }

    fn product(&self) -> &'static str {
        "SQL Server"
    }

    fn packages(&self) -> &'static [&'static str] {
        &[]
    }

    fn advice(&self) -> String {
        format!("Run a container engine and accept the licence of its image with `{LICENCE}=Y`")
    }

    fn account(&self) -> &'static str {
        "mssql"
    }

    fn programs(&self) -> Option<PathBuf> {
        None
    }

    fn image(&self) -> Option<Image> {
        Some(Image {
            default: "mcr.microsoft.com/mssql/server:2022-latest",
            port: PORT,
            environment: &[("MSSQL_SA_PASSWORD", PASSWORD), ("MSSQL_PID", "Developer")],
            arguments: &[],
            licence: Some(LICENCE),
        })
    }

    fn prepare(&self, _site: &Site<'_>) -> Result<()> {
        Err(Error::missing(
            "SQL Server is not started from programs on this machine",
        ))
    }

    fn command(&self, site: &Site<'_>) -> Command {
        site.command("sqlservr")
    }

    /// Its certificate is its own work.
    fn url(&self, port: u16) -> String {
        format!("mssql://sa:{PASSWORD}@127.0.0.1:{port}/master?trust_cert=true")
    }

    /// Nothing is known of its log-ins: in its first second a server may answer this and refuse those.
    fn probe(&self, url: &str) -> Result<Product> {
        let version = prelogin::version(&Url::parse(url, PORT)?)?;
        Ok(Product::new(self.product(), version))
    }
}

#[cfg(test)]
mod tests {
    use super::SqlServer;
    use crate::Server;

    #[test]
    fn no_licence_is_accepted_on_anybodys_behalf() {
        let image = SqlServer.image().unwrap();
        assert_eq!(image.licence, Some("ACCEPT_EULA"));
        let given = image.environment.iter().map(|(name, _)| *name);
        assert!(!given.collect::<Vec<_>>().contains(&"ACCEPT_EULA"));
    }

    #[test]
    fn nothing_is_installed_for_it() {
        let error = SqlServer.install(|_| {}).unwrap_err();
        assert_eq!(error.to_string(), "no package brings SQL Server");
    }
}
