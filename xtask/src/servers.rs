//! `cargo xtask servers`: private servers that stay up.

use clap::Subcommand;
use idem_servers::{Finder, Options, State, server};

use crate::pool::Pool;
use crate::{Result, duckdb};

/// The commands for servers that stay up.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Starts the named servers that do not run yet; without names, all available ones.
    Up {
        /// Such as `postgres`, `mariadb`, `mysql`, `galera` (a cluster of three nodes), `redis`,
        /// `valkey`, `redis-cluster` (six nodes), `mongo`, `dynamodb` (an imitation), and the
        /// broker `nats`.
        names: Vec<String>,
    },
    /// Lists the running servers.
    Status,
    /// Prints `export IDEM_…_URL=…` lines for a shell, and those for DuckDB's library, if `cargo
    /// xtask test` has fetched it.
    Env,
    /// Ends all servers and removes their data.
    Down,
}

pub(crate) fn run(command: &Command) -> Result {
    let mut state = State::open()?;
    match command {
        Command::Up { names } => up(&mut state, names)?,
        Command::Status => {
            if state.records().is_empty() {
                println!("no server runs; `cargo xtask servers up` starts them");
            }
            for record in state.records() {
                let (name, product, url) = (&record.name, &record.product, &record.url);
                println!("{name}  {product}  {url}  ({:?})", record.source);
            }
        }
        Command::Env => {
            for record in state.records() {
                let url = record.url.replace('\'', r"'\''");
                println!("export {}='{url}'", server(&record.name)?.url_variable());
            }
            // DuckDB is no server, and its tests need its library.
            if duckdb::is_there() {
                for (name, value) in duckdb::variables() {
                    println!("export {name}='{value}'");
                }
            }
        }
        Command::Down => {
            let count = state.records().len();
            state.stop_all()?;
            println!("{count} ended");
        }
    }
    Ok(())
}

fn up(state: &mut State, names: &[String]) -> Result {
    let all = idem_servers::servers().iter();
    let everything = names.is_empty();
    let names: Vec<_> = match everything {
        true => all.map(|server| server.name().to_owned()).collect(),
        false => names.to_vec(),
    };
    for name in &names {
        server(name)?;
    }
    stop_stranded(state)?;
    let (running, new): (Vec<_>, Vec<_>) = names
        .into_iter()
        .partition(|name| state.get(name).is_some());
    for name in running {
        println!("    {name}: runs already");
    }
    if new.is_empty() {
        return Ok(());
    }
    let finder = Finder::from_env()?;
    let pool = Pool::start(&new, &finder, &Options::new(), state.records())?;
    for instance in pool.running {
        // A server from the environment is not ended here.
        if let Some(record) = instance.detach() {
            state.add(record)?;
        }
    }
    match pool.missing.is_empty() || everything {
        true => Ok(()),
        false => Err("not every server is up".into()),
    }
}

/// Ends servers in front of a server that is gone: a new one has another port.
fn stop_stranded(state: &mut State) -> Result {
    for server in idem_servers::servers() {
        let Some(upstream) = server.upstream() else {
            continue;
        };
        let elsewhere = std::env::var_os(idem_servers::server(upstream)?.url_variable());
        if state.get(upstream).is_none() && elsewhere.is_none() {
            state.stop(server.name())?;
        }
    }
    Ok(())
}
