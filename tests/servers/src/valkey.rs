use crate::Server;
use crate::redis;
use crate::unpacked::Unpacked;

/// Valkey: no login. It takes Redis's settings.
pub(crate) const SERVER: Server = Server {
    name: "valkey",
    product: "Valkey",
    packages: &["valkey-server"],
    // Debian has it from 13 on; for 12 it is in the backports, and its dependencies are in 12
    // itself.
    unpacked: Some(Unpacked {
        name: "valkey",
        suites: "bookworm bookworm-backports",
        packages: "valkey-server",
    }),
    cached: Some("valkey/usr/bin"),
    programs: &["valkey-server"],
    ..redis::SERVER
};
