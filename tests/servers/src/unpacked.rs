use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Doing;
use crate::folder::is_root;
use crate::packages::{self, is_debian};
use crate::tools::run;
use crate::{Error, Result};

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Other names of Debian's suites, besides those of its releases.
const SUITES: &[&str] = &["oldstable", "stable", "testing", "unstable", "sid"];

/// Options of apt in its folder `{apt}`, besides the machine's own, such as proxies. It does not
/// check the date, because a mirror may be some weeks old.
const OPTIONS: &[&str] = &[
    "Dir::State={apt}/state",
    "Dir::State::status={apt}/status",
    "Dir::Cache={apt}/cache",
    "Dir::Log={apt}",
    "Dir::Etc::preferences=/dev/null",
    "Dir::Etc::preferencesparts={apt}/parts",
    "Dir::Etc::sourcelist={apt}/sources.list",
    "Dir::Etc::sourceparts=-",
    "APT::Install-Recommends=false",
    "APT::Sandbox::User=root",
    "Acquire::Languages=none",
    "Acquire::Retries=3",
    "Acquire::Check-Valid-Until=false",
    "Debug::NoLocking=true",
];

/// Packages of a later Debian than this machine's, unpacked into a separate folder: nothing is
/// installed, none of their scripts runs, and apt's own lists and cache do not change. Their
/// programs run with the folder's own loader and libraries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unpacked {
    /// Name of the folder.
    pub(crate) name: &'static str,
    /// Debian's suites, such as `sid`.
    pub(crate) suites: &'static [&'static str],
    pub(crate) packages: &'static [&'static str],
}

impl Unpacked {
    /// Downloads and unpacks the packages, if they are missing. Takes some 20 s and 60 MB.
    ///
    /// # Errors
    ///
    /// All are [`ErrorKind::Missing`](crate::ErrorKind::Missing): no Debian, no network.
    pub(crate) fn install(&self, progress: fn(&str)) -> Result<()> {
        let packages = self.packages.join(" ");
        let suites = self.suites.join(" ");
        progress(&format!(
            "fetching {packages} of Debian {suites}; nothing is installed"
        ));
        let fetched = make_once(self.name, |apt, fresh| {
            self.download(apt)?;
            unpack(&apt.join("cache/archives"), fresh)
        });
        fetched.map_err(|error| {
            progress(&format!("{error:?}"));
            Error::missing(format!("{packages} of Debian {suites} cannot be fetched"))
                .with_source(error)
        })
    }

    /// Uses apt with separate lists and cache, as if no package was installed.
    fn download(&self, apt: &Path) -> Result<()> {
        let what = || format!("cannot use {}", apt.display());
        for folder in ["state/lists/partial", "cache/archives/partial", "parts"] {
            fs::create_dir_all(apt.join(folder)).doing(what)?;
        }
        let keyring = Path::new(KEYRING).is_file().then_some(KEYRING);
        let sources = self.sources(&mirror()?, keyring);
        fs::write(apt.join("sources.list"), sources).doing(what)?;
        fs::write(apt.join("status"), "").doing(what)?;
        let get = |arguments: &[&str]| {
            let mut command = packages::apt();
            for option in OPTIONS {
                let option = option.replace("{apt}", &apt.display().to_string());
                command.args(["-o", &option]);
            }
            run(command.args(arguments))
        };
        get(&["update"])?;
        let install = ["install", "-y", "--download-only"];
        get(&[&install, self.packages].concat()).map(drop)
    }

    fn sources(&self, mirror: &str, keyring: Option<&str>) -> String {
        let signed = keyring.map(|path| format!("[signed-by={path}] "));
        let signed = signed.unwrap_or_default();
        let line = |suite| format!("deb {signed}{mirror} {suite} main\n");
        self.suites.iter().map(line).collect()
    }
}

/// Returns this machine's mirror of Debian, by its own settings.
fn mirror() -> Result<String> {
    let mut apt = Command::new("apt-get");
    apt.args(["indextargets", "--no-release-info", "--format"]);
    apt.args([
        "$(REPO_URI) $(RELEASE) $(COMPONENT)",
        "Created-By: Packages",
    ]);
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let mut known = SUITES.to_vec();
    let codenames = release
        .lines()
        .filter_map(|line| line.strip_prefix("VERSION_CODENAME="));
    known.extend(codenames);
    let found = mirror_in(&run(&mut apt)?, &known).filter(|_| is_debian(&release, false));
    found.ok_or_else(|| Error::missing("no mirror of Debian is known here"))
}

/// Finds a source of Debian itself, which has a known suite, unlike third-party packages for
/// Debian.
fn mirror_in(targets: &str, suites: &[&str]) -> Option<String> {
    let mut targets = targets.lines().map(|line| line.split(' '));
    targets.find_map(|mut words| {
        let (uri, suite, component) = (words.next()?, words.next()?, words.next()?);
        let fits = suites.contains(&suite) && component == "main" && !uri.starts_with("cdrom:");
        fits.then(|| uri.to_owned())
    })
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

/// Creates the folder of that name in the [`cache`], if it is missing, in one process at a time.
/// `make` gets a folder to work in and the one to fill.
pub(crate) fn make_once(name: &str, make: impl FnOnce(&Path, &Path) -> Result<()>) -> Result<()> {
    let missing = || Error::missing("no folder to keep programs in: HOME is not set");
    let path = cache().ok_or_else(missing)?.join(name);
    let what = || format!("cannot use {}", path.display());
    fs::create_dir_all(path.parent().unwrap_or(&path)).doing(what)?;
    let lock = File::create(path.with_extension("lock")).doing(what)?;
    lock.lock().doing(what)?;
    if path.is_dir() {
        return Ok(());
    }
    let [work, fresh] = ["work", "new"].map(|end| path.with_extension(end));
    let made = make(&work, &fresh).and_then(|()| fs::rename(&fresh, &path).doing(what));
    for rest in [work, fresh] {
        let _ = fs::remove_dir_all(rest);
    }
    made
}

/// Returns a folder that the servers' accounts can read, unlike root's home.
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

#[cfg(test)]
mod tests {
    use super::{Unpacked, mirror_in};

    const TEST: Unpacked = Unpacked {
        name: "test",
        suites: &["sid"],
        packages: &["hello"],
    };

    #[test]
    fn packages_come_from_the_machines_mirror_with_debians_keys() {
        let line = TEST.sources("http://mirror/debian", Some("/k.gpg"));
        assert_eq!(
            line,
            "deb [signed-by=/k.gpg] http://mirror/debian sid main\n"
        );
    }

    #[test]
    fn sources_of_others_and_of_updates_are_passed_over() {
        let targets = "http://vendor/apt cloud-bookworm main\ncdrom:[disk] bookworm main\n\
            http://security/debian-security bookworm-security main\n\
            http://mirror/debian bookworm contrib\n";
        assert_eq!(mirror_in(targets, &["bookworm"]), None);
        let targets = format!("{targets}http://mirror/debian bookworm main\n");
        let found = mirror_in(&targets, &["bookworm"]);
        assert_eq!(found.as_deref(), Some("http://mirror/debian"));
    }
}
