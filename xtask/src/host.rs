//! Programs of the distribution that some tests need besides the servers.

use crate::TestOptions;

/// A client with a wrong clock, for the suite's ninth law.
const CLOCK: &[&str] = &["libfaketime"];

/// A container engine, for the test of the container path.
const ENGINE: &[&str] = &["podman", "netavark", "aardvark-dns", "runc", "iptables"];

/// Installs missing programs, on Debian and Ubuntu as root; otherwise prints in one line the tests
/// that will be ignored.
pub(crate) fn set_up(options: &TestOptions) {
    want("a client with a wrong clock", CLOCK);
    if !options.no_containers && options.backend.is_empty() && options.filter.is_none() {
        want("the container path", ENGINE);
    }
}

fn want(what: &str, packages: &[&str]) {
    if idem_servers::is_installed(packages) {
        return;
    }
    println!("    installing packages: {}", packages.join(" "));
    if let Err(error) = idem_servers::install(packages) {
        println!("    {what} is not tested: {error}");
    }
}
