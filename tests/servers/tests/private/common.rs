//! Requirements on every database, with its own client's queries.

use std::path::Path;

use idem_servers::{Durability, ErrorKind, Instance, Options, Transport, server, start_private};
use libtest_mimic::Trial;

use crate::{Outcome, cases};

/// One database, with queries for its client and the right answers.
pub(crate) struct Database {
    pub(crate) name: &'static str,
    pub(crate) client: &'static str,
    pub(crate) ask: fn(url: &str, question: &str) -> Outcome<String>,
    pub(crate) write: &'static str,
    /// Reads 1 after `write`, 2 after `rewrite`.
    pub(crate) read: &'static str,
    pub(crate) rewrite: &'static str,
    pub(crate) version: &'static str,
    pub(crate) folder: &'static str,
    pub(crate) durable: (&'static str, &'static str),
    pub(crate) fast: &'static [(&'static str, &'static str)],
    /// Connects as a client that trusts only this authority.
    pub(crate) tls: fn(server: &Instance, authority: &str) -> Outcome,
}

type Case = fn(&Database) -> Outcome;

const CASES: &[(&str, Case)] = cases![
    keeps_its_data_over_a_kill_and_a_restart,
    is_fast_and_large_and_says_its_version,
    lets_a_client_in_that_checks_its_certificate,
    leaves_neither_process_nor_folder_when_dropped,
];

pub(crate) fn trials(database: &'static Database) -> Vec<Trial> {
    let cases = CASES.iter();
    let cases: Vec<_> = cases
        .map(|(name, run)| (*name, move || run(database)))
        .collect();
    crate::trials(database.name, database.client, &cases)
}

fn keeps_its_data_over_a_kill_and_a_restart(database: &Database) -> Outcome {
    let options = Options::new().with_durability(Durability::Durable);
    let mut server = start_private(database.name, &options)?;
    let url = server.url().to_owned();
    let ask = |question| (database.ask)(&url, question);
    let (question, answer) = database.durable;
    assert_eq!(ask(question)?, answer);
    ask(database.write)?;
    server.kill()?;
    assert!(ask(database.read).is_err(), "it still answers");
    is_silent(database.name, &url)?;
    server.restart()?;
    assert_eq!(server.url(), url);
    assert_eq!(ask(database.read)?, "1");
    ask(database.rewrite)?;
    server.restart()?;
    assert_eq!(server.url(), url);
    assert_eq!(ask(database.read)?, "2");
    Ok(())
}

fn is_fast_and_large_and_says_its_version(database: &Database) -> Outcome {
    let instance = start_private(database.name, &Options::new())?;
    let ask = |question| (database.ask)(instance.url(), question);
    assert_eq!(instance.product().name, server(database.name)?.product());
    let version = instance.product().version.clone().ok_or("no version")?;
    let returned = ask(database.version)?;
    assert!(returned.contains(&version), "{returned} is not {version}");
    for (question, answer) in database.fast {
        assert_eq!(ask(question)?, *answer);
    }
    Ok(())
}

fn lets_a_client_in_that_checks_its_certificate(database: &Database) -> Outcome {
    let options = Options::new().with_transport(Transport::Tls);
    let server = start_private(database.name, &options)?;
    let authority = server.ca_certificate().ok_or("no certificate")?;
    (database.tls)(&server, authority.to_str().ok_or("no path")?)
}

fn leaves_neither_process_nor_folder_when_dropped(database: &Database) -> Outcome {
    let server = start_private(database.name, &Options::new())?;
    let folder = (database.ask)(server.url(), database.folder)?;
    let url = server.url().to_owned();
    is_removed(database.name, server, &folder, &[url])
}

/// Drops a server, or a cluster, and checks that neither its processes nor its folder are left.
/// `answer` ends with a folder of a process of it.
pub(crate) fn is_removed<S>(name: &str, server: S, answer: &str, urls: &[String]) -> Outcome {
    let folder = Path::new(answer.lines().last().ok_or("no folder")?);
    let mut above = folder.ancestors();
    let of_process = above.find(|folder| folder.join("pid").is_file());
    let whole = of_process.and_then(Path::parent).ok_or("no process")?;
    let mut processes = Vec::new();
    for number in 0..urls.len() {
        let note = std::fs::read_to_string(whole.join(format!("{number}/pid")))?;
        processes.push(Path::new("/proc").join(note.trim()));
    }
    assert!(processes.iter().all(|process| process.exists()));
    drop(server);
    assert!(!processes.iter().any(|process| process.exists()));
    assert!(!whole.exists());
    urls.iter().try_for_each(|url| is_silent(name, url))
}

pub(crate) fn is_silent(name: &str, url: &str) -> Outcome {
    let answer = server(name)?.probe(url);
    assert!(answer.is_err(), "{url} still answers: {answer:?}");
    Ok(())
}

/// Checks that a server is not started with these options.
pub(crate) fn is_refused(name: &str, options: &Options) -> Outcome {
    let refused = start_private(name, options).err().ok_or("ignored")?;
    assert_eq!(refused.kind(), ErrorKind::Failed);
    Ok(())
}
