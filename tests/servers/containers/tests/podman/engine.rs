//! A podman whose storage, settings and socket are in a folder of its own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use tempfile::TempDir;

/// The default runtime (crun), limits and cgroup manager fail where cgroups are hybrid, where the limit of open
/// files is low, or where no systemd runs; these work there and elsewhere.
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

/// Runs until dropped; its containers end with it.
pub(crate) struct Podman {
    folder: TempDir,
    service: Option<Child>,
}

impl Podman {
    /// Whether every program that it takes is there.
    pub(crate) fn is_installed() -> bool {
        let runs = |program: &str| {
            let mut command = Command::new(program);
            command
                .arg("--version")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        let helper = ["/usr/lib/podman", "/usr/libexec/podman"]
            .map(|folder| Path::new(folder).join("netavark"));
        runs("podman") && runs("runc") && helper.iter().any(|path| path.is_file())
    }

    /// Whether we may use it: without root it takes more of the machine than a test can set up.
    pub(crate) fn is_allowed() -> bool {
        let output = Command::new("id").arg("-u").output();
        output.is_ok_and(|output| output.stdout == b"0\n")
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
        podman.service = Some(
            service
                .stdin(Stdio::null())
                .stdout(log.try_clone()?)
                .stderr(log)
                .spawn()?,
        );
        let deadline = Instant::now() + TIME_TO_START;
        while std::os::unix::net::UnixStream::connect(podman.path("socket")).is_err() {
            if Instant::now() > deadline {
                return Err(format!(
                    "podman does not answer: {}",
                    std::fs::read_to_string(podman.path("log"))?
                )
                .into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(podman)
    }

    /// A value for `DOCKER_HOST`.
    pub(crate) fn host(&self) -> String {
        format!("unix://{}", self.path("socket").display())
    }

    /// A path in its folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// podman with this one's storage and settings.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new("podman");
        command.env("CONTAINERS_CONF", self.path("containers.conf"));
        command
            .arg("--root")
            .arg(self.path("storage"))
            .arg("--runroot")
            .arg(self.path("run"));
        command.arg("--tmpdir").arg(self.path("tmp"));
        command
    }

    /// What such a command prints.
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<String, Failed> {
        let output = self
            .command()
            .args(arguments)
            .stdin(Stdio::null())
            .output()?;
        if !output.status.success() {
            return Err(format!(
                "podman {arguments:?}: {}",
                String::from_utf8_lossy(&output.stderr)
            )
            .into());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Containers, running or not.
    pub(crate) fn containers(&self) -> Result<Vec<String>, Failed> {
        Ok(self
            .run(&["ps", "--all", "--quiet"])?
            .lines()
            .map(Into::into)
            .collect())
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        let _ = self.run(&["rm", "--all", "--force", "--time", "0"]);
        if let Some(mut service) = self.service.take() {
            let _ = service.kill();
            let _ = service.wait();
        }
        // The storage mounts itself onto itself, and its folder cannot be removed before that is undone.
        let _ = Command::new("umount")
            .arg(self.path("storage/overlay"))
            .stderr(Stdio::null())
            .status();
    }
}
