//! Redis servers that suffer: one for each state, started when the first case needs it and shared
//! by the others.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use idem_core::BoxError;
use idem_servers::{Instance, Options, start_private};

use super::State;

static RUNNING: Mutex<Vec<(State, String)>> = Mutex::new(Vec::new());

/// The URL of the server in this state.
pub(super) fn url(state: State) -> Result<String, BoxError> {
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, url)) = running.iter().find(|(of, _)| *of == state) {
        return Ok(url.clone());
    }
    let url = start(state)?;
    running.push((state, url.clone()));
    Ok(url)
}

fn start(state: State) -> Result<String, BoxError> {
    let options = match state {
        State::Evicting => Options::new()
            .with_setting("maxmemory", "4mb")
            .with_setting("maxmemory-policy", "allkeys-random"),
        _ => Options::new(),
    };
    let server = start_private("redis", &options)?;
    let url = server.url().to_owned();
    // They end with the process, and the servers with them.
    match state {
        State::Killed => thread::spawn(move || kill_and_restart(server)),
        State::Evicting => thread::spawn(move || fill(&server)),
        _ => thread::spawn(move || flush(&server)),
    };
    Ok(url)
}

fn pause(from: u64, to: u64) {
    thread::sleep(Duration::from_millis(rand::random_range(from..to)));
}

fn kill_and_restart(mut server: Instance) {
    loop {
        pause(100, 900);
        let killed = server.kill();
        pause(1, 300);
        if let Err(error) = killed.and_then(|()| server.restart()) {
            eprintln!("the server to be killed: {error}");
            return;
        }
    }
}

fn flush(server: &Instance) {
    loop {
        if let Err(error) = until_error(server.url(), || ("FLUSHALL\r\n".to_owned(), (1, 60))) {
            eprintln!("the server to be flushed: {error}");
            pause(100, 200);
        }
    }
}

/// Others fill the memory, so that entries and epochs are evicted all the time.
fn fill(server: &Instance) {
    let junk = "x".repeat(20_000);
    loop {
        let command = || {
            let name: u32 = rand::random_range(0..2000);
            (format!("SET junk:{name} {junk}\r\n"), (0, 2))
        };
        if let Err(error) = until_error(server.url(), command) {
            eprintln!("the server to be filled: {error}");
            pause(100, 200);
        }
    }
}

/// Sends inline commands, one after the other, each with a pause in milliseconds after it.
fn until_error(
    url: &str,
    mut command: impl FnMut() -> (String, (u64, u64)),
) -> std::io::Result<()> {
    let (_, place) = super::slow::split(url);
    let mut stream = TcpStream::connect(place)?;
    let mut answer = [0; 512];
    loop {
        let (text, (from, to)) = command();
        stream.write_all(text.as_bytes())?;
        if stream.read(&mut answer)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        pause(from, to.max(from + 1));
    }
}
