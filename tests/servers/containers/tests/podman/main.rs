//! The container path with a real engine: podman from the distribution's packages, on its own
//! socket, and an image built from this machine's PostgreSQL, so that nothing is downloaded. `cargo
//! xtask test` installs podman on Debian as root; elsewhere the trial is shown as ignored, with the
//! reason.

mod engine;
mod image;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use engine::{Podman, output};
use idem_servers::Server;
use libtest_mimic::{Arguments, Failed, Trial};

const TIMEOUT: Duration = Duration::from_secs(120);

fn main() {
    let arguments = Arguments::from_args();
    let missing = missing();
    let name = "a_container_of_our_own_answers_and_is_gone_afterwards";
    let shown = missing
        .as_deref()
        .map_or(name.to_owned(), |reason| format!("{name} ({reason})"));
    let trial = Trial::test(shown, container_comes_and_goes).with_ignored_flag(missing.is_some());
    libtest_mimic::run(&arguments, vec![trial]).exit();
}

/// Returns why the trial cannot run here.
fn missing() -> Option<String> {
    let postgres = idem_servers::server("postgres").ok()?;
    if !Podman::is_installed() {
        Some("podman, runc or netavark is not installed: as root on Debian `cargo xtask test` installs them".into())
    } else if !Podman::is_allowed() {
        Some("podman is run as root here".into())
    } else if postgres.programs().is_none() {
        Some("there is no PostgreSQL to make an image of".into())
    } else {
        None
    }
}

/// Runs `idem-containers` as in real use: as a child of the process that needs a server, here of
/// this test.
fn container_comes_and_goes() -> Result<(), Failed> {
    let podman = Podman::start()?;
    let image = image::build(&podman, postgres().programs().as_deref())?;
    let mut child = Command::new(env!("CARGO_BIN_EXE_idem-containers"))
        .args(["serve", "postgres"])
        .env("DOCKER_HOST", podman.host())
        .env("IDEM_POSTGRES_IMAGE", &image)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let line = first_line(&mut child)?;
    let said: serde_json::Value = serde_json::from_str(&line).map_err(|_| {
        let containers = podman.run(&["ps", "--all"]).unwrap_or_default();
        format!("idem-containers printed no JSON but {line:?}; containers: {containers}")
    })?;
    let url = said["url"].as_str().ok_or("no url")?;

    let product = postgres().probe(url)?;
    assert_eq!(Some(product.name.as_str()), said["product"].as_str());
    assert_eq!(product.version.as_deref(), said["version"].as_str());
    let question = ["-XAt", url, "-c", "SHOW max_connections"];
    assert_eq!(output(Command::new("psql").args(question))?, "300");
    assert_eq!(podman.containers()?, 1);

    drop(child.stdin.take());
    let status = wait(&mut child)?;
    assert!(status.success(), "idem-containers ended with {status}");
    assert_eq!(podman.containers()?, 0, "the container is still there");
    assert!(postgres().probe(url).is_err(), "it still answers");
    Ok(())
}

/// Returns the first line; empty when the child ends without output, with the reason on its
/// standard error.
fn first_line(child: &mut Child) -> Result<String, Failed> {
    let output = child.stdout.take().ok_or("no output")?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        sender.send(BufReader::new(output).read_line(&mut line).map(|_| line))
    });
    Ok(receiver
        .recv_timeout(TIMEOUT)
        .map_err(|_| "idem-containers says nothing")??)
}

fn wait(child: &mut Child) -> Result<ExitStatus, Failed> {
    let deadline = Instant::now() + TIMEOUT;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill()?;
    Err("idem-containers did not end when its standard input closed".into())
}

fn postgres() -> &'static Server {
    idem_servers::server("postgres").expect("postgres is a known server")
}
