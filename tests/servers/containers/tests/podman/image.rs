//! An image like the official one, made of the PostgreSQL on this machine and what it is linked to.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use libtest_mimic::Failed;

use crate::engine::Podman;

const NAME: &str = "localhost/idem-postgres:test";
const USER: u32 = 70;
const PASSWD: &str = "root:x:0:0::/:/bin/sh\npostgres:x:70:70::/data:/bin/sh\n";
const GROUP: &str = "root:x:0:\npostgres:x:70:\n";
/// As the official image's: its arguments are `postgres` and what to give to it.
const START: &str = r#"#!/bin/sh
set -e
"$BIN/initdb" -D /data/main -U postgres --auth=trust --no-sync -E UTF8 --locale=C
echo "host all all all trust" >> /data/main/pg_hba.conf
shift
exec "$BIN/postgres" -D /data/main -k /tmp -c listen_addresses='*' "$@"
"#;

/// Makes the image and answers its name.
pub(crate) fn build(podman: &Podman, programs: Option<&Path>) -> Result<String, Failed> {
    // The real folder, with pg_config: it may have been found through links.
    let postgres = fs::canonicalize(programs.ok_or("no PostgreSQL")?.join("postgres"))?;
    let programs = postgres.parent().ok_or("no PostgreSQL")?;
    let root = Root {
        path: podman.path("image"),
    };
    for folder in ["tmp", "dev", "proc", "sys", "run", "bin", "etc", "data"] {
        fs::create_dir_all(root.path.join(folder))?;
    }
    fs::set_permissions(root.path.join("tmp"), fs::Permissions::from_mode(0o1777))?;
    chown(root.path.join("data"), Some(USER), Some(USER))?;
    root.add_postgres(programs)?;
    root.write("etc/passwd", PASSWD)?;
    root.write("etc/group", GROUP)?;
    root.write("start.sh", START)?;
    fs::set_permissions(
        root.path.join("start.sh"),
        fs::Permissions::from_mode(0o755),
    )?;
    import(podman, &root.path, programs)?;
    Ok(NAME.into())
}

fn import(podman: &Podman, root: &Path, programs: &Path) -> Result<(), Failed> {
    let mut tar = Command::new("tar")
        .arg("-C")
        .arg(root)
        .args(["-c", "."])
        .stdout(Stdio::piped())
        .spawn()?;
    let content = tar.stdout.take().ok_or("tar has no output")?;
    let mut import = podman.command();
    import.arg("import").args([
        "--change",
        "ENTRYPOINT [\"/start.sh\"]",
        "--change",
        "CMD [\"postgres\"]",
    ]);
    import.args(["--change", "EXPOSE 5432", "--change", "USER postgres"]);
    import.args([
        "--change",
        &format!("ENV BIN={}", programs.display()),
        "-",
        NAME,
    ]);
    let output = import.stdin(content).output()?;
    if tar.wait()?.success() && output.status.success() {
        Ok(())
    } else {
        Err(format!("podman import: {}", String::from_utf8_lossy(&output.stderr)).into())
    }
}

/// The folder that becomes the image.
struct Root {
    path: PathBuf,
}

impl Root {
    /// Programs, libraries and shared files at the places where they are on this machine.
    fn add_postgres(&self, programs: &Path) -> Result<(), Failed> {
        let [postgres, initdb] = ["postgres", "initdb"].map(|name| programs.join(name));
        let shell = PathBuf::from("/bin/sh");
        for program in [&postgres, &initdb, &shell] {
            self.add(program)?;
            for library in linked(program)? {
                self.add(&library)?;
            }
        }
        for module in modules(&told(programs, "--pkglibdir")?)? {
            self.add(&module)?;
        }
        self.add_all(&told(programs, "--sharedir")?)?;
        Ok(self.add_all(Path::new("/usr/share/zoneinfo"))?)
    }

    /// One file, as a file even where it is a link.
    fn add(&self, file: &Path) -> io::Result<()> {
        let place = self.place(file);
        fs::create_dir_all(place.parent().unwrap_or(&self.path))?;
        fs::copy(file, place).map(drop)
    }

    fn add_all(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(self.place(folder))?;
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_symlink() {
                symlink(fs::read_link(&path)?, self.place(&path))?;
            } else if path.is_dir() {
                self.add_all(&path)?;
            } else {
                self.add(&path)?;
            }
        }
        Ok(())
    }

    fn write(&self, name: &str, text: &str) -> io::Result<()> {
        fs::write(self.path.join(name), text)
    }

    fn place(&self, path: &Path) -> PathBuf {
        self.path.join(path.strip_prefix("/").unwrap_or(path))
    }
}

/// What the dynamic linker would load, itself among it.
fn linked(program: &Path) -> io::Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(program).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text
        .split_whitespace()
        .filter(|word| word.starts_with('/'))
        .map(PathBuf::from)
        .collect())
}

/// What `initdb` loads. The compiler for queries is left out: its library is larger than everything else.
fn modules(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    let wanted = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(".so")
            && (name.contains("_and_") || ["plpgsql.so", "dict_snowball.so"].contains(&&*name))
    };
    Ok(entries
        .into_iter()
        .map(|entry| entry.path())
        .filter(wanted)
        .collect())
}

/// A folder that PostgreSQL was built for.
fn told(programs: &Path, what: &str) -> Result<PathBuf, Failed> {
    let output = Command::new(programs.join("pg_config"))
        .arg(what)
        .output()?;
    Ok(String::from_utf8(output.stdout)?.trim().into())
}
