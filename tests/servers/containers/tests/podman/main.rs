//! The container path with a real engine: podman from the distribution's packages, on its own
//! socket, and an image built from this machine's Redis, so that nothing is downloaded. `cargo
//! xtask test` installs podman on Debian as root; elsewhere the trials are shown as ignored, with
//! the reason.

mod engine;
mod image;

use std::io::{BufRead, BufReader, sink, stdin};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use engine::Podman;
use idem_servers::{Finder, Server, Source};
use libtest_mimic::{Arguments, Failed, Trial};

type Outcome<T = ()> = Result<T, Failed>;

/// The argument with which this program is the process that needs a server.
const HOLD: &str = "hold-a-server";

fn main() {
    if std::env::args()
        .nth(1)
        .is_some_and(|argument| argument == HOLD)
    {
        hold().expect("a server in a container");
        return;
    }
    let missing = missing();
    let trial = |name: &str, run: fn() -> Outcome| {
        let reason = missing.iter().map(|reason| format!(" ({reason})"));
        let name = format!("{name}{}", reason.collect::<String>());
        Trial::test(name, run).with_ignored_flag(missing.is_some())
    };
    let trials = vec![
        trial(
            "a_container_of_our_own_answers_and_is_gone_afterwards",
            comes_and_goes,
        ),
        trial("a_container_is_gone_when_its_holder_is_killed", is_not_left),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// Returns why the trials cannot run here.
fn missing() -> Option<&'static str> {
    if !Podman::is_installed() {
        Some(
            "podman, runc or netavark is not installed: as root on Debian `cargo xtask test` \
             installs them",
        )
    } else if !Podman::is_allowed() {
        Some("podman is run as root here")
    } else if programs().is_err() {
        Some("there is no Redis to make an image of")
    } else {
        None
    }
}

fn redis() -> &'static Server {
    idem_servers::server("redis").expect("redis is a known server")
}

fn programs() -> Outcome<PathBuf> {
    Ok(redis().programs().ok_or("no Redis")?)
}

/// Holds a server until the standard input closes.
fn hold() -> Outcome {
    let finder = Finder::new().with_sources(&[Source::Container]);
    let server = finder
        .with_progress(|what| eprintln!("{what}"))
        .find("redis")?;
    println!("{} {}", server.url(), server.product());
    std::io::copy(&mut stdin().lock(), &mut sink())?;
    Ok(())
}

/// Starts a process that holds a server, and returns the server's URL.
fn start(podman: &Podman) -> Outcome<(Child, String)> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg(HOLD)
        .env("DOCKER_HOST", podman.host())
        .env("IDEM_REDIS_IMAGE", image::build(podman, &programs()?)?)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut said = String::new();
    let output = child.stdout.take().ok_or("no output")?;
    BufReader::new(output).read_line(&mut said)?;
    let (url, product) = said.trim().split_once(' ').ok_or("no container")?;
    assert_eq!(redis().probe(url)?.to_string(), product);
    assert_eq!(podman.containers()?, 1);
    Ok((child, url.to_owned()))
}

fn comes_and_goes() -> Outcome {
    let podman = Podman::start()?;
    let (mut child, url) = start(&podman)?;
    let settings = ["-u", &url, "CONFIG", "GET", "save"];
    let settings = engine::output(Command::new("redis-cli").args(settings))?;
    assert_eq!(settings, "save", "the server's own options are given");
    drop(child.stdin.take());
    assert!(child.wait()?.success());
    assert_eq!(podman.containers()?, 0, "the container is still there");
    assert!(redis().probe(&url).is_err(), "it still answers");
    Ok(())
}

fn is_not_left() -> Outcome {
    let podman = Podman::start()?;
    let (mut child, _) = start(&podman)?;
    child.kill()?;
    child.wait()?;
    let deadline = Instant::now() + Duration::from_secs(60);
    while podman.containers()? > 0 {
        assert!(Instant::now() < deadline, "the container is still there");
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}
