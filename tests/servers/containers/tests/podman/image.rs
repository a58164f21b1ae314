//! An image like the official one, built from this machine's Redis and its libraries.

use std::path::Path;
use std::process::Command;

use libtest_mimic::Failed;

use crate::engine::{Podman, output};

const NAME: &str = "localhost/idem-redis:test";

/// `$1` is an empty folder, `$2` that of Redis's programs, and the rest imports a tar file. The
/// image contains files where this machine has links. The output of `ldd` includes the dynamic
/// linker itself. Like the official image, it takes connections from outside the container.
const BUILD: &str = r#"
mkdir -p "$1/tmp" "$1/dev" "$1/proc" "$1/sys" "$1/run" "$1/etc"
root=$1
files="/bin/sh /bin/cat /bin/grep /bin/sed /bin/sleep $2/redis-server $2/redis-cli"
shift 2
libraries=$(ldd $files | grep -o '/[^ :]*[.]so[^ :]*' | sort -u)
tar -c --dereference --hard-dereference -C "$root" . -C / $files $libraries 2> /dev/null |
    "$@" \
        --change 'ENTRYPOINT ["/bin/sh", "-c", "exec \"$0\" \"$@\" --protected-mode no"]' \
        --change 'ENV PATH=/usr/bin:/bin' - localhost/idem-redis:test
"#;

/// Builds the image and returns its name.
pub(crate) fn build(podman: &Podman, programs: &Path) -> Result<&'static str, Failed> {
    let import = podman.command();
    let mut build = Command::new("sh");
    build.args(["-e", "-c", BUILD, "build"]);
    build.arg(podman.path("image")).arg(programs);
    build.arg(import.get_program()).args(import.get_args());
    for (name, value) in import.get_envs() {
        build.env(name, value.unwrap_or_default());
    }
    output(build.args(["import"]))?;
    Ok(NAME)
}
