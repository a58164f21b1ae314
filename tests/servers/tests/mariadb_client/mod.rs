//! A client of servers that speak MySQL's protocol.

use std::process::Command;

use libtest_mimic::Failed;

/// The first column of what the server at `url` answers, one row a line.
pub(crate) fn query(url: &str, sql: &str) -> Result<String, Failed> {
    query_with(url, sql, &[])
}

/// The same, with more options for the client.
pub(crate) fn query_with(url: &str, sql: &str, options: &[&str]) -> Result<String, Failed> {
    let port = url
        .rsplit_once("127.0.0.1:")
        .and_then(|(_, rest)| rest.split('/').next())
        .ok_or("no port")?;
    let output = Command::new("mariadb")
        .args(["--no-defaults", "--batch", "--skip-column-names"])
        .args(["--host=127.0.0.1", "--user=idem", "--password=idem"])
        .args(["--database=idem", "--port", port])
        .args(options)
        .args(["--execute", sql])
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
