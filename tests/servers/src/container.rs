use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::error::Doing;
use crate::folder::{Folder, tail};
use crate::process::{Identity, wait_until};
use crate::watchdog::Watchdog;
use crate::{Error, Lifetime, Product, Result, Server, Signal};

/// Names the program `idem-containers`; without it, cargo builds it.
const PROGRAM: &str = "IDEM_CONTAINERS_BIN";
/// An image may have to be fetched first.
const TIME_TO_START: Duration = Duration::from_secs(600);
const TIME_TO_STOP: Duration = Duration::from_secs(30);

/// A server in a container, which `idem-containers` keeps for as long as it runs itself.
#[derive(Debug)]
pub(crate) struct Container {
    url: String,
    folder: Folder,
    child: Option<Child>,
    identity: Identity,
    watchdog: Option<Watchdog>,
}

impl Container {
    pub(crate) fn start(
        server: &'static dyn Server,
        host: &str,
        lifetime: Lifetime,
    ) -> Result<(Self, Product)> {
        let program = program()?;
        let folder = Folder::create(&format!("{}-container", server.name()), None)?;
        let child = spawn(&program, server, host, lifetime, &folder)?;
        let mut container = Self {
            url: String::new(),
            identity: Identity::of(child.id()),
            child: Some(child),
            watchdog: None,
            folder,
        };
        if lifetime == Lifetime::Scoped {
            container.guard()?;
        }
        container.url = container
            .first_line()
            .and_then(|line| url_of(&line))
            .ok_or_else(|| {
                let log = container.folder.log_tail();
                Error::failed(format!("no container of {} on {host}:{log}", server.name()))
            })?;
        let product = server.probe(&container.url)?;
        Ok((container, product))
    }

    /// The program would end with us by itself; its folder would stay.
    fn guard(&mut self) -> Result<()> {
        Watchdog::note(self.folder.path(), self.identity.pid)?;
        self.watchdog = Some(Watchdog::start(self.folder.path(), Signal::Term)?);
        Ok(())
    }

    /// Read on a thread of its own, for the sake of a deadline.
    fn first_line(&mut self) -> Option<String> {
        let output = self.child.as_mut()?.stdout.take()?;
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let _ = BufReader::new(output).read_line(&mut line);
            let _ = sender.send(line);
        });
        receiver.recv_timeout(TIME_TO_START).ok()
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }

    pub(crate) fn release(&mut self) {
        self.child = None;
    }

    /// Ends `idem-containers`, which removes the container.
    pub(crate) fn clear(&mut self) -> Result<()> {
        let Some(mut child) = self.child.take() else {
            return Ok(());
        };
        drop(child.stdin.take());
        self.identity.signal(Signal::Term);
        let ended = wait_until(TIME_TO_STOP, || !matches!(child.try_wait(), Ok(None)));
        if !ended {
            let _ = child.kill();
            let _ = child.wait();
        }
        self.folder.remove();
        self.watchdog = None;
        if ended {
            Ok(())
        } else {
            Err(Error::failed("a container was not removed in time"))
        }
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = self.clear();
    }
}

fn spawn(
    program: &Path,
    server: &dyn Server,
    host: &str,
    lifetime: Lifetime,
    folder: &Folder,
) -> Result<Child> {
    let log = File::create(folder.log()).doing(|| "cannot write the container's log".into())?;
    let mut command = Command::new(program);
    command.args(["serve", server.name()]);
    command
        .env("DOCKER_HOST", host)
        .stdout(Stdio::piped())
        .stderr(log);
    match lifetime {
        // It ends when the pipe closes, that is with us.
        Lifetime::Scoped => command.stdin(Stdio::piped()),
        Lifetime::Detached => command.arg("--stay").stdin(Stdio::null()),
    };
    let child = command.process_group(0).spawn();
    child.doing(|| "cannot run idem-containers".into())
}

fn url_of(line: &str) -> Option<String> {
    let line: serde_json::Value = serde_json::from_str(line).ok()?;
    Some(line.get("url")?.as_str()?.to_owned())
}

/// testcontainers is a large dependency, so its program is built when an engine answers and not before.
fn program() -> Result<PathBuf> {
    if let Some(program) = std::env::var_os(PROGRAM) {
        return Ok(program.into());
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args([
        "build",
        "--quiet",
        "--package",
        "idem-containers",
        "--message-format=json",
    ]);
    build.current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = build.output().doing(|| "cannot run cargo".into())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let found = text.lines().rev().find_map(executable);
    found.filter(|_| output.status.success()).ok_or_else(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        Error::failed(format!("idem-containers cannot be built:{}", tail(&said)))
    })
}

fn executable(line: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(line).ok()?;
    let target = message.get("target")?.get("name")?.as_str()?;
    (target == "idem-containers")
        .then(|| message.get("executable")?.as_str().map(PathBuf::from))
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::{executable, url_of};

    #[test]
    fn the_url_is_read_from_the_line_that_the_program_prints() {
        assert_eq!(
            url_of(r#"{"url":"postgres://h/idem"}"#).as_deref(),
            Some("postgres://h/idem")
        );
        assert_eq!(url_of(""), None);
    }

    #[test]
    fn the_program_is_found_in_what_cargo_says() {
        let line =
            r#"{"target":{"name":"idem-containers"},"executable":"/t/debug/idem-containers"}"#;
        assert_eq!(
            executable(line).unwrap().to_str(),
            Some("/t/debug/idem-containers")
        );
        assert_eq!(
            executable(r#"{"target":{"name":"serde"},"executable":null}"#),
            None
        );
    }
}
