//! `cargo xtask servers`: private servers that stay up.

use clap::Subcommand;
use idem_servers::{Options, State, server};

use crate::Result;
use crate::pool::Pool;

/// The commands for servers that stay up.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Starts the named servers that do not run yet; without names, all available ones.
    Up {
        /// Such as `postgres`, `mariadb`, `mysql`, `galera` (a cluster of three nodes), `redis`,
        /// `valkey`, `redis-cluster` (six nodes), `mongo`, and the broker `nats`.
        names: Vec<String>,
    },
    /// Lists the running servers.
    Status,
    /// Prints `export IDEM_…_URL=…` lines for a shell.
    Env,
    /// Ends all servers and removes their data.
    Down,
}

pub(crate) fn run(command: &Command) -> Result {
    let mut state = State::open()?;
    match command {
        Command::Up { names } => up(&mut state, names)?,
        Command::Status => status(&state),
        Command::Env => environment(&state)?,
        Command::Down => down(&mut state)?,
    }
    Ok(())
}

fn up(state: &mut State, names: &[String]) -> Result {
    let all = idem_servers::servers()
        .iter()
        .map(|server| server.name().to_owned());
    let everything = names.is_empty();
    let names: Vec<_> = if everything {
        all.collect()
    } else {
        names.to_vec()
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
    let pool = Pool::beside(state.records()).start(&new, &Options::new())?;
    let complete = pool.missing().is_empty();
    for instance in pool.into_instances() {
        // A server from the environment is not ended here.
        if let Some(record) = instance.detach() {
            state.add(record)?;
        }
    }
    if complete || everything {
        Ok(())
    } else {
        Err("not every server is up".into())
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

fn status(state: &State) {
    if state.records().is_empty() {
        println!("no server runs; `cargo xtask servers up` starts them");
    }
    for record in state.records() {
        println!(
            "{}  {}  {}  ({:?})",
            record.name, record.product, record.url, record.source
        );
    }
}

fn environment(state: &State) -> Result {
    for record in state.records() {
        let url = record.url.replace('\'', r"'\''");
        println!("export {}='{url}'", server(&record.name)?.url_variable());
    }
    Ok(())
}

fn down(state: &mut State) -> Result {
    let count = state.records().len();
    state.stop_all()?;
    println!("{count} ended");
    Ok(())
}
