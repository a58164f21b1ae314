//! `idem serve`: the console.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use idem_console::{Access, Options as Console};
use serde_json::json;
use tokio::net::TcpListener;

use crate::args::StoreArgs;
use crate::backend::open;
use crate::failure::{Exit, Failure, Result};
use crate::output::{Output, complain};
use crate::when;

/// The options of `serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The address to listen on. Other machines reach only what is not a loopback address; then put
    /// a proxy with TLS in front.
    #[arg(long, value_name = "ADDRESS", default_value_t = Console::DEFAULT_ADDRESS)]
    address: SocketAddr,

    /// Lets people release, fail and delete records.
    #[arg(long)]
    allow_changes: bool,

    /// Lets people read stored results, which are the payloads of your service.
    #[arg(long)]
    show_results: bool,

    /// A file with the token that people have to type; or IDEM_CONSOLE_TOKEN has the token.
    ///
    /// Without both, and without `--proxy-header`, the console of this machine alone may be read by
    /// everybody on it. With `--allow-changes`, or on another address, a token is made and printed.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// The header in which an authenticating proxy sends the user's name.
    #[arg(long, value_name = "NAME", conflicts_with = "token_file")]
    proxy_header: Option<String>,

    /// The address of a proxy whose headers count; may be repeated. Default: loopback.
    #[arg(long, value_name = "ADDRESS")]
    proxy: Vec<IpAddr>,

    /// A name under which browsers reach the console; may be repeated.
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,

    /// A page of a service's metrics, such as http://10.0.0.7:9090/metrics; may be repeated.
    #[arg(long, value_name = "URL")]
    metrics: Vec<String>,

    /// The time between two samples of an open overview.
    #[arg(long, value_name = "DURATION", value_parser = when::duration, default_value = "5s")]
    every: Duration,

    /// The most records to look at for a sample.
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    most: u64,
}

/// The variable with the token. It is no argument: other users see the arguments of a program.
const TOKEN: &str = "IDEM_CONSOLE_TOKEN";

pub(crate) async fn run(args: &StoreArgs, options: &Options, output: Output) -> Result<Exit> {
    let mut console = Console::new()
        .with_address(options.address)
        .with_refresh(options.every)
        .with_most_looked_at(options.most);
    let access = access(options)?;
    let mut made = None;
    if let Some(access) = access {
        console = console.with_access(access);
    } else if options.allow_changes || !options.address.ip().is_loopback() {
        let token = random_token();
        console = console.with_access(Access::token(token.clone())?);
        made = Some(token);
    }
    if options.allow_changes {
        console = console.with_changes();
    }
    if options.show_results {
        console = console.with_shown_results();
    }
    if !options.proxy.is_empty() {
        console = console.with_proxies(options.proxy.iter().copied());
    }
    for host in &options.host {
        console = console.with_host(host);
    }
    for url in &options.metrics {
        console = console.with_metrics_url(url)?;
    }
    let store = open(args).await?;
    super::admin(&*store)?;
    let refused = |error: std::io::Error| {
        let address = options.address;
        Failure::usage(format!(
            "{address} cannot be listened on: {error}; name another `--address`"
        ))
    };
    let listener = TcpListener::bind(options.address).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    output.json(&json!({ "address": address.to_string(), "token": made }))?;
    let may = if options.allow_changes {
        "changes are allowed"
    } else {
        "read-only"
    };
    output.line(format!(
        "The console is at http://{address}/ ({may}). Ctrl-C ends it."
    ))?;
    if let Some(token) = &made {
        output.line(format!("Its token: {token}"))?;
    }
    let serving = idem_console::serve_on(listener, store, console);
    tokio::select! {
        served = serving => served.map_err(|error| Failure::usage(error.to_string()))?,
        // An error means that there is no such signal; then it ends with its process.
        Ok(()) = tokio::signal::ctrl_c() => complain("ended")?,
    }
    Ok(Exit::Done)
}

fn access(options: &Options) -> Result<Option<Access>> {
    if let Some(name) = &options.proxy_header {
        return Ok(Some(Access::proxy_header(name)?));
    }
    let token = match &options.token_file {
        Some(file) => Some(read_token(file)?),
        None => std::env::var(TOKEN).ok().filter(|token| !token.is_empty()),
    };
    Ok(token.map(Access::token).transpose()?)
}

fn read_token(file: &Path) -> Result<String> {
    let token = std::fs::read_to_string(file).map_err(|error| {
        Failure::usage(format!(
            "the token of {} cannot be read: {error}",
            file.display()
        ))
    })?;
    Ok(token.trim().to_owned())
}

/// Returns 128 random bits: the operating system seeds the generator.
fn random_token() -> String {
    format!("{:032x}", rand::random::<u128>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_that_are_made_are_accepted() {
        let (one, two) = (random_token(), random_token());
        assert_ne!(one, two);
        assert!(Access::token(one).is_ok());
    }
}
