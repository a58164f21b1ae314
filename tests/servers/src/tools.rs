//! Programs on this machine: finding and running them, and clients with a deadline.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use url::Url;

use crate::error::Doing;
use crate::folder::tail;
use crate::process::wait_until;
use crate::{Error, Result};

/// How long a server may take to answer.
const TIME_TO_ANSWER: Duration = Duration::from_secs(5);

/// Returns a variable of the environment, unless it is empty.
pub(crate) fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns whether a folder holds all of these programs.
pub(crate) fn holds(folder: &Path, programs: &[&str]) -> bool {
    let is_there = |program: &&str| folder.join(program).is_file();
    folder.is_absolute() && programs.iter().all(is_there)
}

/// Returns the first folder with all of these programs that is accepted: of `$PATH`, of the
/// administrator, which a user's `$PATH` often lacks, and of a pattern, where the newest counts.
pub(crate) fn find(
    programs: &[&str],
    pattern: Option<&str>,
    accepts: impl Fn(&Path) -> bool,
) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let sbin = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(sbin)
        .chain(pattern.into_iter().flat_map(versions))
        .find(|folder| !programs.is_empty() && holds(folder, programs) && accepts(folder))
}

/// Returns the path of a program of this machine.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    Some(find(&[program], None, |_| true)?.join(program))
}

/// Returns the possible folders of `/usr/lib/postgresql/*/bin`, the highest version first.
fn versions(pattern: &str) -> impl Iterator<Item = PathBuf> {
    let folder = |version: u32| pattern.replace('*', &version.to_string()).into();
    (0..100).rev().map(folder)
}

/// Returns the first of these programs that is in the folder, in `bin` if the folder is `sbin`, in
/// the `scripts` of an unpacked archive, or on `$PATH`. An unpacked program runs with its own
/// libraries.
pub(crate) fn tool(folder: &Path, names: &[&str]) -> Command {
    let beside = ["", "../bin", "../scripts"].map(|place| folder.join(place));
    let in_folder = |folder: &PathBuf| {
        let mut there = names.iter().filter(|name| holds(folder, &[name]));
        there.next().map(|name| folder.join(name))
    };
    let on_path = || names.iter().find_map(|name| on_path(name));
    let Some(program) = beside.iter().find_map(in_folder).or_else(on_path) else {
        return Command::new(names[0]);
    };
    match loader(folder) {
        Some((loader, libraries)) if program.starts_with(folder) => {
            let mut command = Command::new(loader);
            command.arg("--library-path").arg(libraries).arg(program);
            command
        }
        _ => Command::new(program),
    }
}

/// Returns the loader and the libraries of a folder with unpacked packages.
pub(crate) fn loader(programs: &Path) -> Option<(PathBuf, PathBuf)> {
    let root = programs.parent()?.parent()?;
    if root == Path::new("/") {
        return None;
    }
    let libraries = fs::read_dir(root.join("usr/lib")).ok()?.flatten();
    libraries.map(|entry| entry.path()).find_map(|folder| {
        let files = fs::read_dir(&folder).ok()?.flatten();
        let mut loaders = files.map(|entry| entry.path()).filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("ld-linux") && name.contains(".so")
        });
        loaders.next().map(|loader| (loader, folder))
    })
}

/// Runs a command to its end and returns its output; on failure the error shows its last lines.
pub(crate) fn run(command: &mut Command) -> Result<String> {
    let program = name(command);
    let output = command.output().doing(|| format!("cannot run {program}"))?;
    printed(&program, &output)
}

/// Runs a client program, like [`run`], for a few seconds at most.
pub(crate) fn ask(command: &mut Command) -> Result<String> {
    let program = name(command);
    command.stdin(Stdio::null());
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            let what = format!("the client program {program} is not on this machine");
            Error::missing(what).with_source(error)
        }
        _ => Error::failed(format!("cannot run {program}")).with_source(error),
    })?;
    // Answers are short: a client does not wait until somebody reads them.
    if !wait_until(TIME_TO_ANSWER, || !matches!(child.try_wait(), Ok(None))) {
        let _ = child.kill();
        let _ = child.wait();
        return Err(Error::failed(format!("{program} gets no answer")));
    }
    let output = child.wait_with_output();
    printed(&program, &output.doing(|| format!("cannot run {program}"))?)
}

fn name(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

fn printed(program: &str, output: &Output) -> Result<String> {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    let said = text(&output.stdout) + &text(&output.stderr);
    Err(Error::failed(format!(
        "{program} failed ({}):{}",
        output.status,
        tail(&said)
    )))
}

/// Parses a server's URL.
pub(crate) fn parse(url: &str) -> Result<Url> {
    Url::parse(url).doing(|| "not a URL (scheme://user:password@host:port/database)".into())
}

/// Decodes the escapes of a part of a URL; `None` for an empty one.
pub(crate) fn decoded(part: Option<&str>) -> Option<String> {
    let part = part.filter(|part| !part.is_empty())?;
    let decoded = percent_encoding::percent_decode_str(part);
    Some(decoded.decode_utf8_lossy().into_owned())
}

/// Opens a connection on which no call waits for longer than a few seconds.
pub(crate) fn connect(url: &str, port: u16) -> Result<TcpStream> {
    let url = parse(url)?;
    let what = || format!("{} does not answer", url.host_str().unwrap_or_default());
    let mut result = Err(std::io::ErrorKind::AddrNotAvailable.into());
    for address in url.socket_addrs(|| Some(port)).doing(what)? {
        result = TcpStream::connect_timeout(&address, TIME_TO_ANSWER);
        if result.is_ok() {
            break;
        }
    }
    let stream = result.doing(what)?;
    stream.set_read_timeout(Some(TIME_TO_ANSWER)).doing(what)?;
    stream.set_write_timeout(Some(TIME_TO_ANSWER)).doing(what)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::{ask, loader, tool};

    #[test]
    fn a_tool_is_found_beside_its_server_or_in_bin_or_on_the_path() {
        let found = |folder, name| tool(Path::new(folder), &["idem-no-such-tool", name]);
        assert_eq!(found("/bin", "sh").get_program(), "/bin/sh");
        assert_eq!(
            found("/usr/sbin", "env").get_program(),
            "/usr/sbin/../bin/env"
        );
        assert!(Path::new(found("", "sh").get_program()).is_absolute());
    }

    #[test]
    fn the_machines_own_programs_need_no_loader() {
        assert_eq!(loader(Path::new("/usr/sbin")), None);
        assert_eq!(loader(Path::new("/no/such/sbin")), None);
    }

    #[test]
    fn the_errors_of_a_client_are_shown() {
        let error = ask(Command::new("sh").args(["-c", "echo why >&2; exit 3"]));
        assert!(error.unwrap_err().to_string().ends_with("\n    why"));
    }
}
