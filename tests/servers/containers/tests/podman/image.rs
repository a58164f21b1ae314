//! An image like the official one, built from this machine's PostgreSQL and its libraries.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use libtest_mimic::Failed;

use crate::engine::{Podman, output};

const NAME: &str = "localhost/idem-postgres:test";
const USER: u32 = 70;
const PASSWD: &str = "root:x:0:0::/:/bin/sh\npostgres:x:70:70::/data:/bin/sh\n";
const GROUP: &str = "root:x:0:\npostgres:x:70:\n";
/// Like the official image's script: its arguments are `postgres` and the settings.
const START: &str = r#"#!/bin/sh
set -e
initdb -D /data/main -U postgres --auth=trust --no-sync -E UTF8 --locale=C
echo "host all all all trust" >> /data/main/pg_hba.conf
echo "CREATE DATABASE $POSTGRES_DB" | postgres --single -D /data/main postgres
shift
exec postgres -D /data/main -k /tmp -c listen_addresses='*' "$@"
"#;

/// Builds the image and returns its name.
pub(crate) fn build(podman: &Podman, programs: Option<&Path>) -> Result<String, Failed> {
    // The real folder, with pg_config: the search may have followed links.
    let postgres = fs::canonicalize(programs.ok_or("no PostgreSQL")?.join("postgres"))?;
    let programs = postgres.parent().ok_or("no PostgreSQL")?;
    let root = podman.path("image");
    for folder in ["tmp", "dev", "proc", "sys", "run", "etc", "data"] {
        fs::create_dir_all(root.join(folder))?;
    }
    fs::set_permissions(root.join("tmp"), fs::Permissions::from_mode(0o1777))?;
    chown(root.join("data"), Some(USER), Some(USER))?;
    fs::write(root.join("etc/passwd"), PASSWD)?;
    fs::write(root.join("etc/group"), GROUP)?;
    fs::write(root.join("start.sh"), START)?;
    fs::set_permissions(root.join("start.sh"), fs::Permissions::from_mode(0o755))?;

    // The image contains files where this machine has links.
    let mut tar = Command::new("tar");
    tar.args(["-c", "--dereference", "--hard-dereference", "-C"]);
    tar.arg(&root)
        .arg(".")
        .args(["-C", "/"])
        .args(contents(programs)?);
    let mut tar = tar.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut import = podman.command();
    import.arg("import");
    for change in [
        "ENTRYPOINT [\"/start.sh\"]",
        "CMD [\"postgres\"]",
        "EXPOSE 5432",
        "USER postgres",
        &format!("ENV PATH={}:/bin", programs.display()),
    ] {
        import.args(["--change", change]);
    }
    import.stdin(tar.stdout.take().ok_or("tar has no output")?);
    output(import.args(["-", NAME]))?;
    tar.wait()?;
    Ok(NAME.into())
}

/// Returns programs, libraries and shared files, by their paths on this machine.
fn contents(programs: &Path) -> Result<Vec<PathBuf>, Failed> {
    let mut paths = ["postgres", "initdb", "psql"]
        .map(|name| programs.join(name))
        .to_vec();
    paths.push("/bin/sh".into());
    // This includes the dynamic linker itself.
    let linked = output(Command::new("ldd").args(&paths))?;
    let linked = linked
        .split_whitespace()
        .filter(|word| word.starts_with('/'));
    let linked = linked.filter(|word| !word.ends_with(':'));
    paths.extend(linked.map(PathBuf::from));
    let returned = |what| output(Command::new(programs.join("pg_config")).arg(what));
    for entry in fs::read_dir(returned("--pkglibdir")?)? {
        let module = entry?.path();
        let name = module.file_name().unwrap_or_default().to_string_lossy();
        // Libraries that `initdb` loads. The compiler for queries is larger than everything else.
        let is_loaded = name.contains("_and_") && name.ends_with(".so");
        if is_loaded || ["plpgsql.so", "dict_snowball.so"].contains(&&*name) {
            paths.push(module);
        }
    }
    paths.push(returned("--sharedir")?.into());
    paths.push("/usr/share/zoneinfo".into());
    // Programs share libraries.
    paths.sort();
    paths.dedup();
    Ok(paths)
}
