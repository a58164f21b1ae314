use std::path::Path;

use crate::tools::{ask, tool};
use crate::{Error, Product, Result, Server, packages, patroni};

/// One etcd, for tests only: no login, and no majority that could be lost. It is no store, but where
/// Patroni keeps who leads.
pub(crate) const SERVER: Server = Server {
    product: "etcd",
    packages: &["etcd-server", "etcd-client"],
    unpacked: Some(patroni::UNPACKED),
    cached: patroni::SERVER.cached,
    programs: &["etcd", "etcdctl"],
    // Besides the clients': for the other members, of which there are none.
    ports: 2,
    url: "http://127.0.0.1:{port}",
    arguments: "--name idem --data-dir {folder}/data \
                --listen-client-urls http://127.0.0.1:{port} \
                --advertise-client-urls http://127.0.0.1:{port} \
                --listen-peer-urls http://127.0.0.1:{port1} \
                --initial-advertise-peer-urls http://127.0.0.1:{port1} \
                --initial-cluster idem=http://127.0.0.1:{port1}",
    fast: "--unsafe-no-fsync",
    install: packages::unpack_for,
    ..Server::new("etcd", probe)
};

fn probe(server: &Server, url: &str, programs: &Path) -> Result<Product> {
    let mut client = tool(programs, &["etcdctl"]);
    client.env("ETCDCTL_API", "3");
    let status = ask(client.args(["--endpoints", url, "endpoint", "status"]))?;
    let version = version(&status).ok_or_else(|| Error::failed("etcd tells no version"))?;
    Ok(Product::new(server.product, Some(version)))
}

/// Returns the version in `http://127.0.0.1:2379, 8e9e05c52164694d, 3.4.23, 20 kB, true, …`.
fn version(status: &str) -> Option<&str> {
    status.split(", ").nth(2)
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn the_version_is_the_servers_own() {
        let status = "http://127.0.0.1:2379, 8e9e05c52164694d, 3.4.23, 20 kB, true, false, 2, 4";
        assert_eq!(version(status), Some("3.4.23"));
        assert_eq!(version(""), None);
    }
}
