use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Doing;
use crate::folder::is_root;
use crate::tools::{environment, run};
use crate::{Error, Result};

/// Fills the folder `$2` with the packages `$4` of Debian's suites `$3`, in the folder `$1`. The
/// machine's own settings, such as proxies, stay; its mirror is a source with a suite of Debian,
/// whose names neither Ubuntu nor vendors use. As if no package was installed, apt gets all that
/// these depend on. It does not check the date, because a mirror may be some weeks old.
const FETCH: &str = r#"
mkdir -p "$1/state/lists/partial" "$1/cache/archives/partial" "$1/parts" "$2"
cd "$1"
targets=$(apt-get indextargets --no-release-info --format '$(RELEASE) $(REPO_URI)' \
    'Created-By: Packages' 'Component: main')
suites='oldstable|stable|testing|unstable|sid|bullseye|bookworm|trixie|forky|duke'
mirror=$(echo "$targets" | grep -v ' cdrom:' | grep -E -m 1 "^($suites) " | cut -d ' ' -f 2)
if [ -z "$mirror" ]; then
    echo 'no mirror of Debian is known here' >&2
    exit 1
fi
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
if [ -f "$keyring" ]; then
    signed="[signed-by=$keyring]"
fi
for suite in $3; do
    echo "deb $signed $mirror $suite main"
done > sources.list
: > status
cat > apt.conf << END
Dir::State "$1/state";
Dir::State::status "$1/status";
Dir::Cache "$1/cache";
Dir::Log "$1";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "$1/parts";
Dir::Etc::sourcelist "$1/sources.list";
Dir::Etc::sourceparts "-";
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::Retries "3";
Acquire::Check-Valid-Until "false";
Debug::NoLocking "true";
END
apt-get -q -c apt.conf update
apt-get -q -c apt.conf install -y --download-only $4
for package in cache/archives/*.deb; do
    dpkg-deb -x "$package" "$2"
done
chmod 755 "$2"
"#;

/// Packages of a later Debian than this machine's, unpacked into a separate folder: nothing is
/// installed, none of their scripts runs, and apt's own lists and cache do not change. Their
/// programs run with the folder's own loader and libraries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unpacked {
    /// Name of the folder.
    pub(crate) name: &'static str,
    /// Debian's suites, such as `sid`, with spaces between them.
    pub(crate) suites: &'static str,
    /// The packages, with spaces between them.
    pub(crate) packages: &'static str,
}

impl Unpacked {
    /// Downloads and unpacks the packages, if they are missing. Takes some 20 s and 60 MB.
    ///
    /// # Errors
    ///
    /// All are [`ErrorKind::Missing`](crate::ErrorKind::Missing): no Debian, no network.
    pub(crate) fn install(&self, progress: fn(&str)) -> Result<()> {
        let Self {
            name,
            suites,
            packages,
        } = self;
        progress(&format!(
            "fetching {packages} of Debian {suites}; nothing is installed"
        ));
        let fetched = make_once(name, |work, fresh| {
            let mut fetch = Command::new("sh");
            fetch.args(["-e", "-c", FETCH, "fetch"]).args([work, fresh]);
            run(fetch.args([suites, packages])).map(drop)
        });
        let what = format!("{packages} of Debian {suites} cannot be fetched");
        let fetched = fetched.map_err(|error| Error::missing(what).with_source(error));
        fetched.map(drop)
    }
}

/// Creates the folder of that name in the [`cache`], if it is missing, in one process at a time, and
/// returns it. `make` gets a folder to work in and the one to fill.
pub(crate) fn make_once(
    name: &str,
    make: impl FnOnce(&Path, &Path) -> Result<()>,
) -> Result<PathBuf> {
    let missing = || Error::missing("no folder to keep programs or data in: HOME is not set");
    let path = cache().ok_or_else(missing)?.join(name);
    let what = || format!("cannot use {}", path.display());
    fs::create_dir_all(path.parent().unwrap_or(&path)).doing(what)?;
    let lock = File::create(path.with_extension("lock")).doing(what)?;
    lock.lock().doing(what)?;
    if path.is_dir() {
        return Ok(path);
    }
    let [work, fresh] = ["work", "new"].map(|end| path.with_extension(end));
    let made = make(&work, &fresh).and_then(|()| fs::rename(&fresh, &path).doing(what));
    for rest in [work, fresh] {
        let _ = fs::remove_dir_all(rest);
    }
    made.map(|()| path)
}

/// Returns a folder that the servers' accounts can read, unlike root's home.
pub(crate) fn cache() -> Option<PathBuf> {
    let folder = match environment("XDG_CACHE_HOME") {
        _ if is_root() => "/var/cache".into(),
        Some(folder) => folder,
        None => environment("HOME")? + "/.cache",
    };
    Some(Path::new(&folder).join("idem"))
}
