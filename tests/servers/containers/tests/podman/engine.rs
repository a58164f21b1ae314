//! A podman with its own storage, settings and socket, in one folder.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use tempfile::TempDir;

/// The default runtime (crun), limits and cgroup manager fail with hybrid cgroups, with a low limit
/// of open files, or without systemd; these work there and elsewhere.
const SETTINGS: &str = r#"
[containers]
default_ulimits = ["nofile=16384:16384", "nproc=8192:8192"]
log_driver = "k8s-file"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[network]
network_backend = "netavark"
"#;
const TIME_TO_START: Duration = Duration::from_secs(30);

/// Runs until it is dropped; its containers end with it.
pub(crate) struct Podman {
    folder: TempDir,
    service: Option<Child>,
}

impl Podman {
    /// Returns whether every required program is installed.
    pub(crate) fn is_installed() -> bool {
        let runs = |program| output(Command::new(program).arg("--version")).is_ok();
        let helpers = ["/usr/lib/podman", "/usr/libexec/podman"];
        let mut helpers = helpers
            .map(|folder| Path::new(folder).join("netavark"))
            .into_iter();
        runs("podman") && runs("runc") && helpers.any(|path| path.is_file())
    }

    /// Returns whether this user may run it: without root it needs more of the machine than a test
    /// can set up.
    pub(crate) fn is_allowed() -> bool {
        output(Command::new("id").arg("-u")).is_ok_and(|user| user == "0")
    }

    pub(crate) fn start() -> Result<Self, Failed> {
        let folder = tempfile::Builder::new().prefix("idem-podman-").tempdir()?;
        std::fs::write(folder.path().join("containers.conf"), SETTINGS)?;
        let mut podman = Self {
            folder,
            service: None,
        };
        let mut service = podman.command();
        service.args(["system", "service", "--time=0", &podman.host()]);
        let log = std::fs::File::create(podman.path("log"))?;
        let service = service.stdin(Stdio::null()).stdout(log.try_clone()?);
        podman.service = Some(service.stderr(log).spawn()?);
        let deadline = Instant::now() + TIME_TO_START;
        while std::os::unix::net::UnixStream::connect(podman.path("socket")).is_err() {
            if Instant::now() > deadline {
                let log = std::fs::read_to_string(podman.path("log"))?;
                return Err(format!("podman does not answer: {log}").into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(podman)
    }

    /// Returns a value for `DOCKER_HOST`.
    pub(crate) fn host(&self) -> String {
        format!("unix://{}", self.path("socket").display())
    }

    /// Returns a path in its folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns a podman command with this storage and these settings.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new("podman");
        command.env("CONTAINERS_CONF", self.path("containers.conf"));
        for (option, folder) in [("root", "storage"), ("runroot", "run"), ("tmpdir", "tmp")] {
            command.arg(format!("--{option}")).arg(self.path(folder));
        }
        command
    }

    /// Returns the output of such a command.
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<String, Failed> {
        output(self.command().args(arguments).stdin(Stdio::null()))
    }

    /// Returns the number of containers, running or not.
    pub(crate) fn containers(&self) -> Result<usize, Failed> {
        Ok(self.run(&["ps", "--all", "--quiet"])?.lines().count())
    }
}

/// Returns the output of a command that has to succeed.
pub(crate) fn output(command: &mut Command) -> Result<String, Failed> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?}: {errors}").into())
}

impl Drop for Podman {
    fn drop(&mut self) {
        let _ = self.run(&["rm", "--all", "--force", "--time", "0"]);
        if let Some(mut service) = self.service.take() {
            let _ = service.kill();
            let _ = service.wait();
        }
        // The storage mounts itself onto itself, and its folder cannot be removed while it is
        // mounted.
        let _ = Command::new("umount")
            .arg(self.path("storage/overlay"))
            .stderr(Stdio::null())
            .status();
    }
}
