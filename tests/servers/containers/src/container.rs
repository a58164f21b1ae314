use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use testcontainers::bollard::Docker;
use testcontainers::bollard::exec::{CreateExecOptions, StartExecOptions, StartExecResults};
use testcontainers::bollard::models::{HostConfig, PortBinding};
use testcontainers::bollard::query_parameters::ListContainersOptionsBuilder;
use testcontainers::core::client::docker_client_instance;
use testcontainers::core::logs::LogFrame;
use testcontainers::core::{CmdWaitFor, ExecCommand, IntoContainerPort};
use testcontainers::runners::AsyncRunner;
use testcontainers::{ContainerAsync, ContainerRequest, GenericImage, ImageExt, ReuseDirective};
use tokio::sync::oneshot;

use crate::images::Image;
use crate::{Error, Result};

/// From the start of a container, whose image is there, until its server answers.
const TIME_TO_START: Duration = Duration::from_secs(300);

/// Ends the container from within when its input is closed, as the engine does when the process that
/// holds the other end is gone, for whatever reason. The first process of a container ignores the
/// signals that it does not handle, SIGKILL too; it ends without those that it started.
const GUARD: &str = "cat > /dev/null; while :; do kill -KILL -1; kill -TERM 1; sleep 1; done";

/// The label with the process that holds a container.
const HOLDER: &str = "rs.idem.holder";
/// The label with the name of the server.
const SERVER: &str = "rs.idem.server";

/// A server in a container. Dropping it removes the container, and so does the end of the process,
/// even by SIGKILL.
#[derive(Debug)]
pub struct Container {
    url: String,
    version: Option<String>,
    _hold: Option<Hold>,
}

impl Container {
    /// Returns the URL for clients.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the version as the server says it; `None` if it does not, or if the URL came from the
    /// environment.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }
}

/// Keeps a thread that holds a container with a runtime of its own: the container outlives the
/// runtime of one test, and is removed without one.
#[derive(Debug)]
struct Hold {
    release: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        drop(self.release.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Returns the server that the environment names, or [starts](start) one.
pub(crate) async fn find(name: &str) -> Result<Container> {
    match Image::named(name)?.variable("URL") {
        Some(url) => Ok(Container {
            url,
            version: None,
            _hold: None,
        }),
        None => start(name).await,
    }
}

/// Starts a container of the image of that name, such as `postgres`, and waits until its server
/// answers. In a process whose parent holds such a container, that one is meant.
///
/// # Errors
///
/// As for [`postgres`](crate::postgres).
pub async fn start(name: &str) -> Result<Container> {
    let image = Image::named(name)?;
    image.check_licence()?;
    let (started, answer) = oneshot::channel();
    let (release, released) = oneshot::channel();
    let thread = std::thread::spawn(move || hold(image, started, released));
    let gone = |_| Error::failed("the thread of the container ended");
    let (url, version) = answer.await.map_err(gone)??;
    Ok(Container {
        url,
        version,
        _hold: Some(Hold {
            release: Some(release),
            thread: Some(thread),
        }),
    })
}

type Answer = Result<(String, Option<String>)>;

/// Holds a container until it is released. The caller may have gone when it has started.
fn hold(image: &'static Image, started: oneshot::Sender<Answer>, released: oneshot::Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = started.send(Err(Error::failed(format!("no runtime: {error}"))));
            return;
        }
    };
    runtime.block_on(async {
        match Running::start(image).await {
            Ok(running) => {
                if started.send(Ok(running.answer.clone())).is_ok() {
                    let _ = released.await;
                }
                running.remove().await;
            }
            Err(error) => drop(started.send(Err(error))),
        }
    });
}

/// A container that runs.
struct Running {
    container: ContainerAsync<GenericImage>,
    answer: (String, Option<String>),
    /// The other end of its guard's input; `None` if another process holds it.
    guard: Option<StartExecResults>,
}

impl Running {
    #[expect(clippy::future_not_send, reason = "one thread runs it, see `hold`")]
    async fn start(image: &'static Image) -> Result<Self> {
        let docker = docker_client_instance().await.map_err(Error::no_engine)?;
        let engine = docker.info().await.map_err(Error::no_engine)?;
        let is_here = is_here(&engine.name.unwrap_or_default());
        let log = Log::default();
        let request = request(image, is_here, &log);
        let parent = holder(std::os::unix::process::parent_id());
        let own = holder(std::process::id());
        let is_shared = is_held(&docker, image, &parent).await?;
        let (holder, reuse) = match is_shared {
            true => (parent, ReuseDirective::Always),
            false => (own, ReuseDirective::Never),
        };
        let request = request.with_label(HOLDER, holder).with_reuse(reuse);
        let container = request.start().await.map_err(Error::failed)?;
        let ready = async {
            let guard = match is_shared {
                true => None,
                false => Some(guard(&docker, container.id()).await?),
            };
            let version = tokio::time::timeout(TIME_TO_START, version(&container, image));
            let late = |_| Error::failed("the server did not answer in five minutes");
            let version = version.await.map_err(late)??;
            let host = match is_here {
                true => "127.0.0.1".to_owned(),
                false => {
                    let host = container.get_host().await;
                    host.map_err(Error::failed)?.to_string()
                }
            };
            let port = container.get_host_port_ipv4(image.port).await;
            let port = port.map_err(Error::failed)?;
            let url = image.url.replace("{address}", &format!("{host}:{port}"));
            Result::Ok((guard, (url, version)))
        };
        let ready = ready.await;
        if ready.is_err() {
            // The last lines of its log come a moment after its end.
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        let (guard, answer) = ready.map_err(|error: Error| error.with(&log.tail()))?;
        Ok(Self {
            container,
            answer,
            guard,
        })
    }

    /// Removes it, unless another process holds it.
    async fn remove(self) {
        if self.guard.is_some() {
            // The engine also removes it by itself when it has ended.
            let _ = self.container.rm().await;
        }
    }
}

fn request(image: &'static Image, is_here: bool, log: &Log) -> ContainerRequest<GenericImage> {
    let (name, tag) = image.name_and_tag();
    let request = GenericImage::new(name, tag).with_exposed_port(image.port.tcp());
    let mut request = request
        .with_cmd(image.arguments.iter().copied())
        .with_label(SERVER, image.name)
        .with_startup_timeout(TIME_TO_START)
        .with_log_consumer(log.consumer())
        .with_host_config_modifier(move |settings| publish(settings, is_here, image.port));
    for (name, value) in image.environment {
        request = request.with_env_var(*name, *value);
    }
    if let Some(variable) = image.licence {
        request = request.with_env_var(variable, "Y");
    }
    for (path, text) in image.files {
        request = request.with_copy_to(*path, text.as_bytes().to_vec());
    }
    request
}

/// Returns whether the engine on the machine of that name publishes ports on this one. At a local
/// socket it does, unless this process is in a container and the engine is outside.
fn is_here(machine: &str) -> bool {
    let host = std::env::var("DOCKER_HOST").unwrap_or_default();
    let mut marks = ["/.dockerenv", "/run/.containerenv"].iter();
    let is_contained = marks.any(|mark| Path::new(mark).exists());
    (host.is_empty() || host.starts_with("unix:")) && (!is_contained || machine == hostname())
}

/// Lets the engine remove the container when it ends. An engine here publishes the port for this
/// machine only: most of the servers have no password.
fn publish(settings: &mut HostConfig, is_here: bool, port: u16) {
    let host = if is_here { "127.0.0.1" } else { "0.0.0.0" };
    let binding = PortBinding {
        host_ip: Some(host.into()),
        host_port: None,
    };
    let bindings = HashMap::from([(format!("{port}/tcp"), Some(vec![binding]))]);
    settings.port_bindings = Some(bindings);
    settings.publish_all_ports = None;
    settings.auto_remove = Some(true);
}

/// Starts the guard in a container.
async fn guard(docker: &Docker, id: &str) -> Result<StartExecResults> {
    let options = CreateExecOptions {
        attach_stdin: Some(true),
        cmd: Some(vec!["sh", "-c", GUARD]),
        ..Default::default()
    };
    let guard = docker.create_exec(id, options).await;
    let guard = guard.map_err(Error::failed)?;
    let started = docker.start_exec(&guard.id, None::<StartExecOptions>).await;
    started.map_err(Error::failed)
}

/// Waits until the server answers, and returns its version.
#[expect(clippy::future_not_send, reason = "one thread runs it, see `hold`")]
async fn version(
    container: &ContainerAsync<GenericImage>,
    image: &Image,
) -> Result<Option<String>> {
    loop {
        let command = ExecCommand::new(["sh", "-c", image.question]);
        let command = command.with_cmd_ready_condition(CmdWaitFor::exit_code(0));
        let answer = container.exec(command).await;
        if !container.is_running().await.unwrap_or(false) {
            return Err(Error::failed("the server ended while it started"));
        }
        if let Ok(mut answer) = answer {
            let printed = answer.stdout_to_vec().await.map_err(Error::failed)?;
            // While a question is being asked, podman says that it ended with 0.
            if answer.exit_code().await.map_err(Error::failed)? == Some(0) {
                let printed = String::from_utf8_lossy(&printed);
                return Ok(printed.split_whitespace().next().map(Into::into));
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Returns a process of this machine, for a label. Several machines may share an engine.
fn holder(process: u32) -> String {
    format!("{process}@{}", hostname())
}

/// Returns the name of this machine (Linux; empty elsewhere).
fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// Returns whether that process holds a running container of this image.
async fn is_held(docker: &Docker, image: &Image, holder: &str) -> Result<bool> {
    let labels = [(HOLDER, holder), (SERVER, image.name)];
    let labels = labels.map(|(name, value)| format!("{name}={value}")).into();
    let filters = HashMap::from([("label", labels)]);
    let options = ListContainersOptionsBuilder::new().filters(&filters);
    let found = docker.list_containers(Some(options.build())).await;
    Ok(!found.map_err(Error::failed)?.is_empty())
}

/// The last lines of a server's log: when it ends, the engine removes its log with the container.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    const LINES: usize = 15;

    fn consumer(&self) -> impl Fn(&LogFrame) + Send + Sync + 'static {
        let lines = Arc::clone(&self.0);
        move |frame| {
            let text = String::from_utf8_lossy(frame.bytes());
            let Ok(mut lines) = lines.lock() else { return };
            lines.extend(text.lines().map(str::to_owned));
            let surplus = lines.len().saturating_sub(Self::LINES);
            lines.drain(..surplus);
        }
    }

    fn tail(&self) -> String {
        let lines = self.0.lock().map(|lines| lines.clone());
        let lines = lines.unwrap_or_default();
        lines.iter().map(|line| format!("\n    {line}")).collect()
    }
}
