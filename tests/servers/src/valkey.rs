use std::path::PathBuf;
use std::process::Command;

use crate::redis::{PORT, account, command, prepare, probe, tls_url, url};
use crate::root::Root;
use crate::server::{in_sbin, on_path};
use crate::{Image, Options, Product, Result, Server, Site, Transport, packages};

const PROGRAM: &str = "valkey-server";

/// Debian has it from 13 on; for 12 it is in the backports, and what that needs in 12 itself.
const ROOT: Root = Root {
    name: "valkey",
    suites: &["bookworm", "bookworm-backports"],
    packages: &[PROGRAM],
    without: &["adduser", "init-system-helpers", "lsb-base", "procps"],
};

/// Valkey: no log-in; told what Redis is told.
#[derive(Clone, Copy, Debug)]
pub struct Valkey;

impl Server for Valkey {
    fn name(&self) -> &'static str {
        "valkey"
    }

    fn product(&self) -> &'static str {
        "Valkey"
    }

    fn packages(&self) -> &'static [&'static str] {
        ROOT.packages
    }

    /// The distribution's own, where it has one and we may install it.
    fn install(&self, progress: fn(&str)) -> Result<()> {
        if packages::is_installable(PROGRAM) {
            progress(&format!("installing packages: {PROGRAM}"));
            packages::install(ROOT.packages)
        } else {
            ROOT.install(progress)
        }
    }

    fn advice(&self) -> String {
        format!("Put a `{PROGRAM}` on `$PATH`")
    }

    fn account(&self) -> &'static str {
        account("valkey")
    }

    fn programs(&self) -> Option<PathBuf> {
        on_path(&[PROGRAM])
            .or_else(|| in_sbin(&[PROGRAM]))
            .or_else(|| ROOT.programs("usr/bin", &[PROGRAM]))
    }

    fn image(&self) -> Option<Image> {
        Some(Image {
            default: "valkey/valkey:8.1",
            port: PORT,
            environment: &[],
            arguments: &[PROGRAM, "--save", "", "--appendonly", "no"],
            licence: None,
        })
    }

    fn takes_settings(&self) -> bool {
        true
    }

    fn needs_second_port(&self, options: &Options) -> bool {
        options.transport() == Transport::Tls
    }

    fn prepare(&self, site: &Site<'_>) -> Result<()> {
        prepare(site)
    }

    fn command(&self, site: &Site<'_>) -> Command {
        command(site)
    }

    fn url(&self, port: u16) -> String {
        url(port)
    }

    fn tls_url(&self, site: &Site<'_>) -> Option<String> {
        tls_url(site)
    }

    fn probe(&self, url: &str) -> Result<Product> {
        probe(url, self.product())
    }
}
