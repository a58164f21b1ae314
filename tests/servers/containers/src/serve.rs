use std::error::Error;
use std::time::Duration;

use idem_servers::{Image, Product, Server};
use testcontainers::bollard::models::{HostConfig, PortBinding};
use testcontainers::core::{CmdWaitFor, ExecCommand, IntoContainerPort};
use testcontainers::runners::AsyncRunner;
use testcontainers::{ContainerAsync, ContainerRequest, GenericImage, ImageExt};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::place::Place;

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

const TIME_TO_ANSWER: Duration = Duration::from_secs(90);
const PAUSE: Duration = Duration::from_millis(50);

/// How long the container stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stay {
    /// Until the parent process closes the pipe to this one, or until a signal.
    WhileStdinIsOpen,
    UntilSignalled,
}

/// One database to run in a container.
#[derive(Debug)]
pub(crate) struct Serve {
    server: &'static Server,
    image: Image,
    stay: Stay,
}

impl Serve {
    pub(crate) fn new(name: &str, stay: Stay) -> Result<Self> {
        let server = idem_servers::server(name)?;
        let image = server
            .image()
            .ok_or_else(|| format!("there is no container image of {name}"))?;
        Ok(Self {
            server,
            image,
            stay,
        })
    }

    /// Signals are caught before there is a container to remove.
    pub(crate) async fn run(self) -> Result<()> {
        let mut end = End::new(self.stay)?;
        let place = Place::find().await;
        let request = self.request(place)?;
        let container = tokio::select! {
            container = request.start() => container?,
            () = end.wait() => return Ok(()),
        };
        let served = tokio::select! {
            served = self.announce(&container, place) => served,
            () = end.wait() => Ok(()),
        };
        if served.is_ok() {
            end.wait().await;
        }
        container.rm().await?;
        served
    }

    fn request(&self, place: Place) -> Result<ContainerRequest<GenericImage>> {
        let variable = idem_servers::variable(self.server.name(), "IMAGE");
        let reference = std::env::var(variable).ok().filter(|name| !name.is_empty());
        let (name, tag) = split_tag(reference.as_deref().unwrap_or(self.image.default));
        let image = GenericImage::new(name, tag).with_exposed_port(self.image.port.tcp());
        let request = image
            .with_cmd(self.image.arguments.iter().copied())
            .with_label("idem", self.server.name());
        let port = self.image.port;
        let request = request.with_host_config_modifier(move |config| publish(config, port, place));
        let variables = self.image.environment.iter().copied();
        let variables = variables.chain(self.image.licence()?);
        Ok(variables.fold(request, |request, (name, value)| {
            request.with_env_var(name, value)
        }))
    }

    async fn announce(&self, container: &ContainerAsync<GenericImage>, place: Place) -> Result<()> {
        let url = self
            .server
            .url(container.get_host_port_ipv4(self.image.port.tcp()).await?);
        let url = match place {
            Place::Here => url,
            Place::Elsewhere => url.replace("127.0.0.1", &container.get_host().await?.to_string()),
        };
        let product = self.answered(container, &url).await?;
        let line = serde_json::json!({
            "url": url,
            "product": product.name,
            "version": product.version,
            "container": container.id(),
        });
        println!("{line}");
        Ok(())
    }

    /// Runs the image's client program in the container: a port may take connections before the
    /// server does, and a machine may not have the program.
    async fn answered(
        &self,
        container: &ContainerAsync<GenericImage>,
        url: &str,
    ) -> Result<Product> {
        let deadline = Instant::now() + TIME_TO_ANSWER;
        loop {
            let answer = match self.image.question {
                [] => self.server.probe(url).map_err(Into::into),
                question => self.version(container, question).await,
            };
            match answer {
                Ok(product) => return Ok(product),
                Err(error) if Instant::now() > deadline || !container.is_running().await? => {
                    let said = container.stderr_to_vec().await.unwrap_or_default();
                    return Err(format!("{error:?}\n{}", String::from_utf8_lossy(&said)).into());
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    async fn version(
        &self,
        container: &ContainerAsync<GenericImage>,
        question: &[&str],
    ) -> Result<Product> {
        let command = ExecCommand::new(question.iter().copied());
        let command = command.with_cmd_ready_condition(CmdWaitFor::exit_code(0));
        let printed = container.exec(command).await?.stdout_to_vec().await?;
        let product = Product::returned(self.server.product(), &String::from_utf8_lossy(&printed));
        match product.version {
            Some(_) => Ok(product),
            None => Err("the server does not answer yet".into()),
        }
    }
}

fn publish(config: &mut HostConfig, port: u16, place: Place) {
    let binding = PortBinding {
        host_ip: Some(place.address().into()),
        host_port: Some(String::new()),
    };
    config.publish_all_ports = Some(false);
    config.port_bindings = Some([(format!("{port}/tcp"), Some(vec![binding]))].into());
}

/// Splits the tag after the last colon, except when that is the port of a host; the default is
/// `latest`.
fn split_tag(reference: &str) -> (&str, &str) {
    match reference.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, tag),
        _ => (reference, "latest"),
    }
}

/// The reasons to end.
struct End {
    terminate: Signal,
    interrupt: Signal,
    stdin: watch::Receiver<bool>,
}

impl End {
    fn new(stay: Stay) -> std::io::Result<Self> {
        let [terminate, interrupt] = [SignalKind::terminate(), SignalKind::interrupt()].map(signal);
        let (closed, stdin) = watch::channel(false);
        // A separate thread: tokio would wait for its read to end before this program does.
        std::thread::spawn(move || {
            if stay == Stay::WhileStdinIsOpen {
                let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
                let _ = closed.send(true);
            }
        });
        Ok(Self {
            terminate: terminate?,
            interrupt: interrupt?,
            stdin,
        })
    }

    async fn wait(&mut self) {
        let stdin = async {
            if self.stdin.wait_for(|closed| *closed).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            () = stdin => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::split_tag;

    #[test]
    fn a_tag_is_not_mistaken_for_a_port() {
        for (reference, name, tag) in [
            ("postgres:17.6-alpine", "postgres", "17.6-alpine"),
            (
                "host:5000/team/postgres",
                "host:5000/team/postgres",
                "latest",
            ),
            ("host:5000/postgres:16", "host:5000/postgres", "16"),
        ] {
            assert_eq!(split_tag(reference), (name, tag));
        }
    }
}
