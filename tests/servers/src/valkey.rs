use crate::redis::Redis;
use crate::server::Tls;
use crate::unpacked::Unpacked;
use crate::{Image, Server};

/// Valkey: no login. It takes Redis's settings.
pub(crate) static SERVER: Server = Server {
    product: "Valkey",
    packages: &["valkey-server"],
    // Debian has it from 13 on; for 12 it is in the backports, and its dependencies are in 12
    // itself.
    unpacked: Some(Unpacked {
        name: "valkey",
        suites: &["bookworm", "bookworm-backports"],
        packages: &["valkey-server"],
        without: &["adduser", "init-system-helpers", "lsb-base", "procps"],
        folder: "usr/bin",
    }),
    programs: &["valkey-server"],
    accounts: &["valkey", "nobody"],
    takes_settings: true,
    tls: Tls::SecondPort("rediss"),
    image: Some(Image {
        arguments: &["valkey-server", "--save", "", "--appendonly", "no"],
        question: &[
            "sh",
            "-c",
            "valkey-cli INFO server | sed -n s/^valkey_version://p",
        ],
        ..Image::new("valkey/valkey:8.1", 6379)
    }),
    ..Server::new("valkey", &Redis("Valkey"))
};
