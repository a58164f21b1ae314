use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

const TIME_TO_ANSWER: Duration = Duration::from_secs(2);

/// Returns the container engine that takes connections, as a value for `DOCKER_HOST`: only the one
/// that `DOCKER_HOST` names, if it is set; otherwise the one at Docker's or podman's usual sockets.
pub fn engine() -> Option<String> {
    candidates(&|name| std::env::var(name).ok())
        .into_iter()
        .find(|host| answers(host))
}

/// Returns where an engine may be, for the message when there is none.
pub(crate) fn candidates(variable: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let set = |name| variable(name).filter(|value| !value.is_empty());
    if let Some(host) = set("DOCKER_HOST") {
        return vec![host];
    }
    let mut sockets = vec![PathBuf::from("/var/run/docker.sock")];
    if let Some(runtime) = set("XDG_RUNTIME_DIR").map(PathBuf::from) {
        sockets.extend(["docker.sock", "podman/podman.sock"].map(|socket| runtime.join(socket)));
    }
    if let Some(home) = set("HOME").map(PathBuf::from) {
        sockets.push(home.join(".docker/run/docker.sock"));
    }
    sockets.push("/run/podman/podman.sock".into());
    let host = |socket: PathBuf| format!("unix://{}", socket.display());
    sockets.into_iter().map(host).collect()
}

fn answers(host: &str) -> bool {
    if let Some(path) = host.strip_prefix("unix://") {
        return UnixStream::connect(path).is_ok();
    }
    let address = host.split_once("://").map_or(host, |(_, address)| address);
    let addresses = address.trim_end_matches('/').to_socket_addrs();
    let takes = |address| TcpStream::connect_timeout(&address, TIME_TO_ANSWER).is_ok();
    addresses.is_ok_and(|mut addresses| addresses.any(takes))
}

#[cfg(test)]
mod tests {
    use super::candidates;

    #[test]
    fn docker_host_alone_counts_where_it_is_set() {
        let hosts = candidates(&|name| (name == "DOCKER_HOST").then(|| "tcp://build:2375".into()));
        assert_eq!(hosts, ["tcp://build:2375"]);
    }

    #[test]
    fn without_it_dockers_socket_comes_before_podmans() {
        let hosts = candidates(&|name| (name == "XDG_RUNTIME_DIR").then(|| "/run/user/7".into()));
        assert_eq!(hosts[0], "unix:///var/run/docker.sock");
        let podman = "unix:///run/user/7/podman/podman.sock".to_owned();
        assert!(hosts.contains(&podman), "{hosts:?}");
    }
}
