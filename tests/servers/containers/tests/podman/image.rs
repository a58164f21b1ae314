//! An image like the official one, built from this machine's Redis and its libraries.

use std::path::Path;
use std::process::{Command, Stdio};

use libtest_mimic::Failed;

use crate::engine::{Podman, output};

const NAME: &str = "localhost/idem-redis:test";
/// Like the official image, it takes connections from outside the container.
const CHANGES: &[&str] = &[
    r#"ENTRYPOINT ["/bin/sh", "-c", "exec \"$0\" \"$@\" --protected-mode no"]"#,
    "EXPOSE 6379",
    "ENV PATH=/usr/bin:/bin",
];

/// Builds the image and returns its name.
pub(crate) fn build(podman: &Podman, programs: &Path) -> Result<String, Failed> {
    let root = podman.path("image");
    for folder in ["tmp", "dev", "proc", "sys", "run", "etc"] {
        std::fs::create_dir_all(root.join(folder))?;
    }
    let mut files = vec!["/bin/sh".to_owned(), "/bin/sed".to_owned()];
    let of_redis = ["redis-server", "redis-cli"].map(|name| programs.join(name));
    files.extend(of_redis.map(|path| path.display().to_string()));
    // This includes the dynamic linker itself.
    let linked = output(Command::new("ldd").args(&files))?;
    let linked = linked
        .split_whitespace()
        .filter(|word| word.starts_with('/'));
    files.extend(linked.filter(|word| !word.ends_with(':')).map(Into::into));
    // Programs share libraries.
    files.sort();
    files.dedup();

    // The image contains files where this machine has links.
    let mut tar = Command::new("tar");
    tar.args(["-c", "--dereference", "--hard-dereference", "-C"]);
    tar.arg(&root).args([".", "-C", "/"]).args(&files);
    let mut tar = tar.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut import = podman.command();
    import.arg("import");
    for change in CHANGES {
        import.args(["--change", change]);
    }
    import.stdin(tar.stdout.take().ok_or("tar has no output")?);
    output(import.args(["-", NAME]))?;
    tar.wait()?;
    Ok(NAME.into())
}
