use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Doing;
use crate::mirror::Mirror;
use crate::server::holds;
use crate::site::{is_root, run, said_by};
use crate::{Error, Result, Site};

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Packages of a later Debian than this machine's, unpacked into a folder of their own: nothing is installed, no
/// script of theirs runs, and apt's own lists and cache stay as they are. Their programs run with the folder's own
/// loader and libraries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Root {
    /// Name of the folder.
    pub(crate) name: &'static str,
    /// Debian's suites: `sid`.
    pub(crate) suites: &'static [&'static str],
    /// What is wanted; what that needs comes with it.
    pub(crate) packages: &'static [&'static str],
    /// What is needed by name and not in fact: left out.
    pub(crate) without: &'static [&'static str],
}

impl Root {
    /// The folder, whether it is there or not. It is kept from run to run.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        Some(cache()?.join(self.name))
    }

    /// The folder of these programs, once they were fetched.
    pub(crate) fn programs(&self, folder: &str, programs: &[&str]) -> Option<PathBuf> {
        Some(self.path()?.join(folder)).filter(|folder| holds(folder, programs))
    }

    /// As [`fetch`](Self::fetch), telling what is done.
    pub(crate) fn install(&self, progress: fn(&str)) -> Result<()> {
        progress(&format!(
            "fetching {} of Debian {}; nothing is installed",
            self.packages.join(" "),
            self.suites.join(" ")
        ));
        self.fetch()
            .inspect_err(|error| progress(&format!("{error:?}")))
    }

    /// Fetches and unpacks the packages, unless that was done before. Takes some 20 s and 60 MB, and says that
    /// they are missing whatever goes wrong: no Debian, no network.
    fn fetch(&self) -> Result<()> {
        let missing = |error: Error| {
            let packages = self.packages.join(" ");
            let suites = self.suites.join(" ");
            Error::missing(format!("{packages} of Debian {suites} cannot be fetched"))
                .with_source(error)
        };
        let path = self
            .path()
            .ok_or_else(|| Error::missing("no folder to keep programs in: HOME is not set"))?;
        let mirror =
            Mirror::find().ok_or_else(|| Error::missing("no mirror of Debian is known here"))?;
        self.fetch_from(&mirror, &path).map_err(missing)
    }

    fn fetch_from(&self, mirror: &Mirror, path: &Path) -> Result<()> {
        let what = || format!("cannot use {}", path.display());
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).doing(what)?;
        }
        let lock = File::create(path.with_extension("lock")).doing(what)?;
        lock.lock().doing(what)?;
        if path.is_dir() {
            return Ok(());
        }
        let [apt, fresh] = ["apt", "new"].map(|end| path.with_extension(end));
        let fetched = self
            .download(mirror, &apt)
            .and_then(|()| unpack(&apt.join("cache/archives"), &fresh))
            .and_then(|()| fs::rename(&fresh, path).doing(what));
        for rest in [apt, fresh] {
            let _ = fs::remove_dir_all(rest);
        }
        fetched
    }

    /// With an apt that has lists, cache and settings of its own.
    fn download(&self, mirror: &Mirror, apt: &Path) -> Result<()> {
        let what = || format!("cannot use {}", apt.display());
        for folder in ["state/lists/partial", "cache/archives/partial", "parts"] {
            fs::create_dir_all(apt.join(folder)).doing(what)?;
        }
        let architecture = said_by(Command::new("dpkg").arg("--print-architecture"))?;
        for (file, text) in [
            ("sources.list", self.sources(mirror)),
            ("status", self.status(architecture.trim())),
            ("apt.conf", configuration(apt)?),
        ] {
            fs::write(apt.join(file), text).doing(what)?;
        }
        let get = || {
            let mut command = Command::new("apt-get");
            command.env("APT_CONFIG", apt.join("apt.conf"));
            command.env("DEBIAN_FRONTEND", "noninteractive").arg("-qq");
            command
        };
        run(get().arg("update"))?;
        run(get()
            .args(["-y", "--download-only", "install"])
            .args(self.packages))
    }

    fn sources(&self, mirror: &Mirror) -> String {
        let usual = Path::new(KEYRING).is_file().then(|| KEYRING.to_owned());
        let keyring = mirror.keyring.clone().or(usual);
        let signed = keyring.map(|path| format!("[signed-by={path}] "));
        let signed = signed.unwrap_or_default();
        let uri = &mirror.uri;
        let lines = self.suites.iter();
        lines
            .map(|suite| format!("deb {signed}{uri} {suite} main\n"))
            .collect()
    }

    /// What is left out counts as installed.
    fn status(&self, architecture: &str) -> String {
        let entry = |name: &&str| {
            format!(
                "Package: {name}\nStatus: install ok installed\nVersion: 99\nMulti-Arch: allowed\n\
                 Architecture: {architecture}\nMaintainer: nobody\nDescription: left out\n\n"
            )
        };
        self.without.iter().map(entry).collect()
    }
}

/// A program of the server's, by its own loader where it lies in such a folder.
pub(crate) fn command(site: &Site<'_>, program: &str) -> Command {
    let Some((loader, libraries)) = loader(site.programs()) else {
        return site.command(program);
    };
    let mut command = site.command(loader);
    command.arg("--library-path").arg(libraries);
    command.arg(site.programs().join(program));
    command
}

/// How to run a program of such a folder: by its loader, told where its libraries are. None of a program that does
/// not lie in one.
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

/// Readable by the servers' accounts, which a root's home is not.
pub(crate) fn cache() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let folder = if is_root() {
        PathBuf::from("/var/cache")
    } else {
        set("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .or_else(|| Some(PathBuf::from(set("HOME")?).join(".cache")))?
    };
    Some(folder.join("idem"))
}

/// A mirror may be some weeks old, hence no check of the date. Proxies are the machine's.
fn configuration(apt: &Path) -> Result<String> {
    let dump = said_by(Command::new("apt-config").arg("dump"))?;
    let network = dump
        .lines()
        .filter(|line| line.starts_with("Acquire::http"));
    let apt = apt.display();
    Ok(format!(
        r#"{network}
Dir::State "{apt}/state";
Dir::State::status "{apt}/status";
Dir::Cache "{apt}/cache";
Dir::Log "{apt}";
Dir::Etc::main "/dev/null";
Dir::Etc::parts "{apt}/parts";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "{apt}/parts";
Dir::Etc::sourcelist "{apt}/sources.list";
Dir::Etc::sourceparts "-";
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::Retries "3";
Acquire::Check-Valid-Until "false";
Debug::NoLocking "true";
"#,
        network = network.collect::<Vec<_>>().join("\n")
    ))
}

fn unpack(archives: &Path, into: &Path) -> Result<()> {
    let what = || format!("cannot unpack {}", archives.display());
    fs::create_dir_all(into)
        .and_then(|()| fs::set_permissions(into, fs::Permissions::from_mode(0o755)))
        .doing(what)?;
    for entry in fs::read_dir(archives).doing(what)? {
        let path = entry.doing(what)?.path();
        if path.extension().is_some_and(|end| end == "deb") {
            run(Command::new("dpkg-deb").arg("-x").arg(&path).arg(into))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Root, loader};
    use crate::mirror::Mirror;

    const ROOT: Root = Root {
        name: "test",
        suites: &["sid"],
        packages: &["hello"],
        without: &["perl"],
    };

    #[test]
    fn packages_come_from_the_machines_mirror_with_its_keys() {
        let mirror = Mirror {
            uri: "http://mirror/debian".into(),
            keyring: Some("/k.gpg".into()),
        };
        assert_eq!(
            ROOT.sources(&mirror),
            "deb [signed-by=/k.gpg] http://mirror/debian sid main\n"
        );
    }

    #[test]
    fn what_is_left_out_counts_as_installed() {
        let status = ROOT.status("arm64");
        assert!(
            status.starts_with("Package: perl\nStatus: install ok installed\n"),
            "{status}"
        );
        assert!(status.contains("\nArchitecture: arm64\n"), "{status}");
    }

    #[test]
    fn the_machines_own_programs_need_no_loader() {
        assert_eq!(loader(Path::new("/usr/sbin")), None);
        assert_eq!(loader(Path::new("/no/such/sbin")), None);
    }
}
