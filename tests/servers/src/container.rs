use std::path::Path;
use std::process::Command;

use crate::node::Node;
use crate::server::{Image, words};
use crate::tools::{ask, environment, parse};
use crate::watchdog::REMOVE;
use crate::{Error, Product, Result, Server, variable};

/// The client programs, with the option that names an engine, and how they print its machine.
const CLIENTS: &[(&[&str], &str, &str)] = &[
    (&["docker"], "--host", "{{.Name}}"),
    (&["podman", "--remote"], "--url", "{{.Host.Hostname}}"),
];

/// A container engine, by the client program that reaches it.
#[derive(Clone, Debug)]
pub(crate) struct Engine {
    /// The program and its options.
    client: Vec<String>,
    /// The host at which it publishes ports.
    address: String,
    image: Image,
}

impl Engine {
    /// Returns the engine that answers, for the image of a server: the one that `DOCKER_HOST`
    /// names, if it is set, otherwise the clients' own.
    pub(crate) fn find(server: &Server) -> Result<Self> {
        let product = server.product;
        let missing = || Error::missing(format!("there is no container image of {product}"));
        let image = server.image.ok_or_else(missing)?;
        let host = environment("DOCKER_HOST").unwrap_or_default();
        for (client, option, format) in CLIENTS {
            let mut client = client.to_vec();
            if !host.is_empty() {
                client.extend([option, host.as_str()]);
            }
            let mut info = Command::new(client[0]);
            info.args(&client[1..]).args(["info", "--format", format]);
            let name = ask(&mut info).unwrap_or_default();
            if !name.trim().is_empty() {
                check_licence(&image)?;
                return Ok(Self {
                    client: client.into_iter().map(Into::into).collect(),
                    address: address(&host, name.trim())?,
                    image,
                });
            }
        }
        let what = "no container engine answers `docker info` or `podman --remote info`";
        Err(Error::missing(what))
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.client[0]);
        command.args(&self.client[1..]);
        command
    }

    /// Returns the command that runs a server in a container, until that is removed.
    pub(crate) fn run(&self, node: &Node) -> Result<Command> {
        let (image, name) = (self.image, name(node));
        let quoted = self.client.iter().map(|word| format!("'{word}'"));
        let client = quoted.collect::<Vec<_>>().join(" ");
        let remove = format!("{client} rm --force --volumes {name}\n");
        node.folder.write(REMOVE, &remove)?;
        let is_here = self.address == "127.0.0.1";
        let interface = if is_here { "127.0.0.1" } else { "0.0.0.0" };
        let port = format!("{interface}:{}:{}", node.port(0), image.port);
        let mut command = self.command();
        command.args(["run", "--rm", "--name", &name, "--publish", &port]);
        for (name, value) in image.environment {
            command.arg("--env").arg(format!("{name}={value}"));
        }
        if let Some(variable) = image.licence {
            command.args(["--env", variable]);
        }
        let server = node.server;
        let other = environment(&variable(server.name, "IMAGE"));
        command
            .arg(other.as_deref().unwrap_or(image.default))
            .args(image.arguments)
            .args(words(server.options))
            .args(words(server.fast));
        node.folder.settle(&mut command);
        Ok(command)
    }

    /// Runs the image's client program in the container: a port may take connections before the
    /// server does, and a machine may not have the program.
    pub(crate) fn probe(&self, node: &Node) -> Result<Product> {
        let question = self.image.question;
        if question.is_empty() {
            return node.server.probe(&node.url);
        }
        let mut command = self.command();
        let printed = ask(command.args(["exec", &name(node), "sh", "-c", question]))?;
        let product = Product::returned(node.server.product, &printed);
        match product.version {
            Some(_) => Ok(product),
            None => Err(Error::failed("the server does not say its version yet")),
        }
    }
}

/// Returns the container's name: that of the server's folder.
fn name(node: &Node) -> String {
    let folder = node.folder.path().parent().and_then(Path::file_name);
    folder.unwrap_or_default().to_string_lossy().into_owned()
}

/// Checks that the user has accepted the image's licence. The container gets the variable, too.
fn check_licence(image: &Image) -> Result<()> {
    let is_accepted = |variable: &str| environment(variable).is_some_and(|value| value == "Y");
    match image.licence.filter(|variable| !is_accepted(variable)) {
        Some(variable) => Err(Error::missing(format!(
            "the licence of its image is not accepted ({variable}=Y does so)"
        ))),
        None => Ok(()),
    }
}

/// Returns the host at which an engine on the machine of that name publishes ports. In a container,
/// an engine at a local socket is either within the same container, and has its host name, or
/// outside, where this process cannot reach ports of 127.0.0.1.
fn address(docker_host: &str, machine: &str) -> Result<String> {
    if !docker_host.is_empty() && !docker_host.starts_with("unix:") {
        let host = parse(docker_host)?;
        return Ok(host.host_str().unwrap_or("127.0.0.1").into());
    }
    let marks = ["/.dockerenv", "/run/.containerenv"];
    let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if marks.iter().any(|mark| Path::new(mark).exists()) && machine != own.trim() {
        let what = "the container engine runs outside of the container of this process";
        return Err(Error::missing(what));
    }
    Ok("127.0.0.1".into())
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn an_engine_on_another_machine_publishes_ports_there() {
        let found = address("tcp://build:2375", "build-7").unwrap();
        assert_eq!(found, "build");
    }
}
