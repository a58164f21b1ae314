use std::process::Command;

use crate::{Error, Result};

/// A system account for a server when tests run as root, because the server refuses to run as root.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Account {
    /// Returns the first of these accounts that exists; `None` without root: then the server runs
    /// under the current account.
    pub(crate) fn first_of(names: &[&str]) -> Result<Option<Self>> {
        if !is_root() {
            return Ok(None);
        }
        let account = names.iter().find_map(|name| {
            let [uid, gid] = ["-u", "-g"].map(|flag| number(flag, name));
            Some(Self {
                uid: uid?,
                gid: gid?,
            })
        });
        account.map(Some).ok_or_else(|| {
            let name = names.first().copied().unwrap_or_default();
            Error::missing(format!(
                "the server refuses to run as root and there is no account `{name}`: \
                 `useradd --system {name}`, or run this as another user"
            ))
        })
    }
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn number(flag: &str, name: &str) -> Option<u32> {
    let output = Command::new("id").args([flag, name]).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}
