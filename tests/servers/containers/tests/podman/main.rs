//! Containers with a real engine: podman from the distribution's packages, on its own socket, and an
//! image built from this machine's Redis, so that nothing is downloaded. `cargo xtask test` installs
//! podman on Debian as root; elsewhere the trials are shown as ignored, with the reason.

mod engine;
mod image;

use std::io::{BufRead, BufReader, sink, stdin};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use engine::Podman;
use idem_servers::{Finder, Server, Source};
use libtest_mimic::{Arguments, Failed, Trial};

type Outcome<T = ()> = Result<T, Failed>;

/// The program of this package.
const PROGRAM: &str = env!("CARGO_BIN_EXE_idem-containers");

/// The arguments with which this program is a process that needs servers.
const BY_LIBRARY: &str = "hold-by-library";
const BY_FINDER: &str = "hold-by-finder";
const SHARED: &str = "share-those-of-the-parent";

fn main() {
    let role = std::env::args().nth(1).unwrap_or_default();
    let held = match role.as_str() {
        BY_LIBRARY => by_library(),
        BY_FINDER => by_finder(),
        SHARED => shared(),
        _ => return trials(),
    };
    if let Err(error) = held {
        println!("{}", error.message().unwrap_or_default());
        std::process::exit(1);
    }
}

fn trials() {
    let missing = missing();
    let trial = |name: &str, run: fn() -> Outcome| {
        let reason = missing.iter().map(|reason| format!(" ({reason})"));
        let name = format!("{name}{}", reason.collect::<String>());
        Trial::test(name, run).with_ignored_flag(missing.is_some())
    };
    let trials = vec![
        trial("containers_are_private_and_gone_afterwards", comes_and_goes),
        trial("containers_are_gone_when_their_holder_is_killed", || {
            is_not_left(&mut holder(BY_LIBRARY)?, 2)
        }),
        trial("a_container_is_gone_when_its_program_is_killed", || {
            let mut program = Command::new(PROGRAM);
            program.arg("redis");
            is_not_left(&mut program, 1)
        }),
        trial("idem_servers_starts_one_and_ends_it", found),
        trial("one_that_idem_servers_started_is_gone_when_killed", || {
            is_not_left(&mut holder(BY_FINDER)?, 1)
        }),
        trial("a_machine_without_an_engine_lacks_the_server", no_engine),
        trial("an_image_that_is_nowhere_is_named", no_image),
        trial("a_server_that_ends_at_once_shows_its_log", broken),
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

fn runtime() -> Outcome<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Runtime::new()?)
}

/// Holds two servers until the standard input closes. They are dropped outside of a runtime.
fn by_library() -> Outcome {
    let start = || {
        runtime()?
            .block_on(idem_containers::redis())
            .map_err(|error| said(&error))
    };
    let (first, second) = (start()?, start()?);
    println!("{} {:?}", first.url(), first.version());
    println!("{} {:?}", second.url(), second.version());
    std::io::copy(&mut stdin().lock(), &mut sink())?;
    let mut child = Command::new(std::env::current_exe()?);
    print!("{}", engine::output(child.arg(SHARED))?);
    Ok(())
}

/// Prints the URL of a server that the parent holds.
fn shared() -> Outcome {
    let server = runtime()?.block_on(idem_containers::redis());
    println!("{}", server.map_err(|error| said(&error))?.url());
    Ok(())
}

fn said(error: &idem_containers::Error) -> Failed {
    format!("{:?}: {error}", error.kind()).into()
}

/// Holds a server until the standard input closes.
fn by_finder() -> Outcome {
    let finder = Finder::new().with_sources(&[Source::Container]);
    let server = finder
        .with_progress(|what| eprintln!("{what}"))
        .find("redis")?;
    println!("{} {}", server.url(), server.product());
    std::io::copy(&mut stdin().lock(), &mut sink())?;
    Ok(())
}

fn holder(role: &str) -> Outcome<Command> {
    let mut holder = Command::new(std::env::current_exe()?);
    holder.arg(role);
    Ok(holder)
}

/// Lets a process use that engine and image.
fn prepared<'c>(command: &'c mut Command, host: &str, image: &str) -> &'c mut Command {
    command
        .env("DOCKER_HOST", host)
        .env("IDEM_REDIS_IMAGE", image)
        .env_remove("IDEM_REDIS_URL")
        .env(
            "IDEM_CONTAINERS_BIN_DIR",
            Path::new(PROGRAM).parent().unwrap_or(Path::new("/")),
        )
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
}

/// Starts a process that holds servers, and returns the lines that it prints for them.
fn start(
    podman: &Podman,
    holder: &mut Command,
    servers: usize,
) -> Outcome<(Child, impl Iterator<Item = String> + use<>, Vec<String>)> {
    let image = image::build(podman, &programs()?)?;
    let mut child = prepared(holder, &podman.host(), image).spawn()?;
    let output = child.stdout.take().ok_or("no output")?;
    let mut lines = BufReader::new(output).lines().map_while(Result::ok);
    let printed: Vec<_> = lines.by_ref().take(servers).collect();
    assert_eq!(podman.containers()?, servers, "{printed:?}");
    Ok((child, lines, printed))
}

fn url(line: &str) -> &str {
    line.split(' ').next().unwrap_or_default()
}

fn comes_and_goes() -> Outcome {
    let podman = Podman::start()?;
    let (mut child, mut lines, printed) = start(&podman, &mut holder(BY_LIBRARY)?, 2)?;
    let [first, second] = [url(&printed[0]), url(&printed[1])];
    assert_ne!(first, second, "each call starts another server");
    for line in &printed {
        let version = redis().probe(url(line))?.version;
        assert_eq!(line, &format!("{} {version:?}", url(line)));
    }
    let settings = ["-u", first, "CONFIG", "GET", "save"];
    let settings = engine::output(Command::new("redis-cli").args(settings))?;
    assert_eq!(settings, "save", "the server has its arguments");
    let listens = podman.run(&["ps", "--format", "{{.Ports}}"])?;
    let is_local = |line: &str| line.starts_with("127.0.0.1:");
    assert!(listens.lines().all(is_local), "{listens}");
    drop(child.stdin.take());
    let shared = lines.next().ok_or("its child found no server")?;
    assert!([first, second].contains(&&*shared), "{shared}");
    assert!(child.wait()?.success());
    assert_eq!(podman.containers()?, 0, "a container is still there");
    assert!(redis().probe(first).is_err(), "it still answers");
    Ok(())
}

fn is_not_left(holder: &mut Command, servers: usize) -> Outcome {
    let podman = Podman::start()?;
    let (mut child, ..) = start(&podman, holder, servers)?;
    child.kill()?;
    child.wait()?;
    let deadline = Instant::now() + Duration::from_secs(60);
    while podman.containers()? > 0 {
        assert!(Instant::now() < deadline, "a container is still there");
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

fn found() -> Outcome {
    let podman = Podman::start()?;
    let (mut child, _, printed) = start(&podman, &mut holder(BY_FINDER)?, 1)?;
    let (url, product) = printed[0].split_once(' ').ok_or("no server")?;
    assert_eq!(redis().probe(url)?.to_string(), product);
    drop(child.stdin.take());
    assert!(child.wait()?.success());
    assert_eq!(podman.containers()?, 0, "the container is still there");
    Ok(())
}

/// Returns what processes that find no server print.
fn refused(host: &str, image: &str) -> Outcome<[String; 2]> {
    let printed = |role| {
        let output = prepared(&mut holder(role)?, host, image).output()?;
        assert!(!output.status.success(), "{role}: {output:?}");
        Outcome::Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    Ok([printed(BY_LIBRARY)?, printed(BY_FINDER)?])
}

fn no_engine() -> Outcome {
    let [library, finder] = refused("unix:///nowhere/engine", "redis")?;
    assert!(
        library.starts_with("Missing: no container engine: "),
        "{library}"
    );
    assert!(library.contains("/nowhere/engine"), "{library}");
    let reason = "no redis: its container did not start: no container engine: ";
    assert!(finder.starts_with(reason), "{finder}");
    Ok(())
}

fn no_image() -> Outcome {
    let podman = Podman::start()?;
    let [library, finder] = refused(&podman.host(), "localhost/idem-nowhere:1")?;
    let reason = "failed to pull the image 'localhost/idem-nowhere:1'";
    assert!(library.starts_with("Failed: "), "{library}");
    assert!(
        library.contains(reason) && finder.contains(reason),
        "{library}{finder}"
    );
    Ok(())
}

fn broken() -> Outcome {
    let podman = Podman::start()?;
    let image = image::build(&podman, &programs()?)?;
    let broken = "localhost/idem-broken:test";
    let change = "ENTRYPOINT [\"/bin/sh\", \"-c\", \"sleep 2; echo the disk is on fire; exit 3\"]";
    let container = podman.run(&["create", image])?;
    podman.run(&["commit", "--change", change, &container, broken])?;
    podman.run(&["rm", &container])?;
    let [library, _] = refused(&podman.host(), broken)?;
    assert!(library.contains("ended while it started"), "{library}");
    assert!(library.contains("\n    the disk is on fire"), "{library}");
    assert_eq!(podman.containers()?, 0, "its container is still there");
    Ok(())
}
