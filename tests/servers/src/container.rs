use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde::Deserialize;

use crate::error::Doing;
use crate::folder::Folder;
use crate::process::{Identity, wait_until};
use crate::tools::run;
use crate::watchdog::Watchdog;
use crate::{Error, Lifetime, Product, Result, Server, Signal};

/// Names the program `idem-containers`; without it, cargo builds the program.
const PROGRAM: &str = "IDEM_CONTAINERS_BIN";
/// The image may have to be downloaded first.
const TIME_TO_START: Duration = Duration::from_secs(600);
const TIME_TO_STOP: Duration = Duration::from_secs(30);

/// A server in a container, which `idem-containers` keeps for as long as it runs itself.
#[derive(Debug)]
pub(crate) struct Container {
    url: String,
    product: Product,
    folder: Folder,
    child: Option<Child>,
    identity: Identity,
    watchdog: Option<Watchdog>,
}

/// The line that the program prints when the database answers.
#[derive(Debug, Deserialize)]
struct Served {
    url: String,
    product: String,
    version: Option<String>,
}

impl Container {
    pub(crate) fn start(server: &'static Server, host: &str, lifetime: Lifetime) -> Result<Self> {
        let program = program()?;
        let name = server.name;
        let folder = Folder::create(&format!("{name}-container"), None)?;
        let inner = folder.within("0", None)?;
        let child = spawn(&program, name, host, lifetime, &folder)?;
        let mut container = Self {
            url: String::new(),
            product: Product::new(server.product, None),
            identity: Identity::of(child.id()),
            child: Some(child),
            watchdog: None,
            folder,
        };
        if lifetime == Lifetime::Scoped {
            // The program itself would end with this process, but its folder would stay.
            Watchdog::note(inner.path(), container.identity.pid)?;
            let watchdog = Watchdog::start(container.folder.path(), Signal::Term)?;
            container.watchdog = Some(watchdog);
        }
        let line = container.first_line().unwrap_or_default();
        let served: Served = serde_json::from_str(&line).map_err(|_| {
            let log = container.folder.log_tail();
            Error::failed(format!("no container of {name} on {host}:{log}"))
        })?;
        container.url = served.url;
        container.product = Product::new(&served.product, served.version.as_deref());
        Ok(container)
    }

    /// Reads the first line on a separate thread, so that it can have a deadline.
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

    pub(crate) fn product(&self) -> &Product {
        &self.product
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
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
    name: &str,
    host: &str,
    lifetime: Lifetime,
    folder: &Folder,
) -> Result<Child> {
    let log = File::create(folder.log()).doing(|| "cannot write the container's log".into())?;
    let mut command = Command::new(program);
    command.args(["serve", name]).env("DOCKER_HOST", host);
    command.stdout(Stdio::piped()).stderr(log);
    match lifetime {
        // The program ends when the pipe closes, that is, with this process.
        Lifetime::Scoped => command.stdin(Stdio::piped()),
        Lifetime::Detached => command.arg("--stay").stdin(Stdio::null()),
    };
    let child = command.process_group(0).spawn();
    child.doing(|| "cannot run idem-containers".into())
}

/// Returns the program, and builds it only when an engine answers, because testcontainers is a
/// large dependency.
fn program() -> Result<PathBuf> {
    if let Some(program) = std::env::var_os(PROGRAM) {
        return Ok(program.into());
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "--package", "idem-containers"]);
    build.arg("--message-format=json");
    let built = run(build.current_dir(env!("CARGO_MANIFEST_DIR")))?;
    let found = built.lines().rev().find_map(executable);
    found.ok_or_else(|| Error::failed("cargo names no idem-containers"))
}

fn executable(line: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(line).ok()?;
    if message["target"]["name"] != "idem-containers" {
        return None;
    }
    message["executable"].as_str().map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::executable;

    #[test]
    fn the_program_is_found_in_cargos_messages() {
        let line =
            r#"{"target":{"name":"idem-containers"},"executable":"/t/debug/idem-containers"}"#;
        let found = executable(line).unwrap();
        assert_eq!(found.to_str(), Some("/t/debug/idem-containers"));
        let other = r#"{"target":{"name":"serde"},"executable":null}"#;
        assert_eq!(executable(other), None);
    }
}
