//! [`Script`]: one atomic step on the server.

use redis::{Cmd, ToRedisArgs};

/// A Lua script that works on one key, or on several of one slot.
///
/// It is called by its SHA-1. A server that does not know it (just started, failed over,
/// `SCRIPT FLUSH`) gets the whole text with `EVAL`, which it remembers. `redis::Script` would load
/// it first, on every node of a cluster, and fail when one of them is down.
#[derive(Debug)]
pub(crate) struct Script {
    text: &'static str,
    hash: String,
}

impl Script {
    pub(crate) fn new(text: &'static str) -> Self {
        Self {
            text,
            hash: redis::Script::new(text).get_hash().to_owned(),
        }
    }

    pub(crate) fn call(&self, key: &str) -> Call<'_> {
        self.call_with(&[key])
    }

    /// Calls it on several keys, all of them in one slot.
    pub(crate) fn call_with(&self, keys: &[&str]) -> Call<'_> {
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(&self.hash).arg(keys.len()).arg(keys);
        Call {
            script: Some(self),
            cmd,
            is_dated: false,
        }
    }
}

/// A script with its keys and arguments, or a command that is atomic by itself.
#[derive(Debug, Clone)]
pub(crate) struct Call<'s> {
    script: Option<&'s Script>,
    cmd: Cmd,
    is_dated: bool,
}

impl Call<'_> {
    /// Wraps a plain command.
    pub(crate) fn plain(cmd: Cmd) -> Self {
        Self {
            script: None,
            cmd,
            is_dated: false,
        }
    }

    /// Marks a script whose last argument is the instant at which its caller stops waiting; the
    /// argument is added when it is sent.
    pub(crate) fn dated(mut self) -> Self {
        self.is_dated = true;
        self
    }

    pub(crate) fn is_dated(&self) -> bool {
        self.is_dated
    }

    /// Returns the call for a caller that stops waiting at this instant of the server's clock.
    pub(crate) fn until(&self, micros: i64) -> Self {
        let mut call = self.clone();
        if call.is_dated {
            call.cmd.arg(micros);
        }
        call
    }

    pub(crate) fn arg(mut self, value: impl ToRedisArgs) -> Self {
        self.cmd.arg(value);
        self
    }

    /// Returns its bytes on the wire, without the lengths between them.
    pub(crate) fn bytes(&self) -> usize {
        let length = |arg: redis::Arg<&[u8]>| match arg {
            redis::Arg::Simple(value) => value.len(),
            _ => 0,
        };
        self.cmd.args_iter().map(length).sum()
    }

    /// Returns the command as it is; a script by its hash.
    pub(crate) fn by_hash(&self) -> &Cmd {
        &self.cmd
    }

    /// Returns the command with the script's text.
    pub(crate) fn with_text(&self) -> Cmd {
        let Some(script) = self.script else {
            return self.cmd.clone();
        };
        let mut cmd = redis::cmd("EVAL");
        cmd.arg(script.text);
        // After the name and the hash come the number of keys, the keys and the arguments.
        for value in self.cmd.args_iter().skip(2) {
            if let redis::Arg::Simple(value) = value {
                cmd.arg(value);
            }
        }
        cmd
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_replaces_the_hash() {
        let script = Script::new("return ARGV[1]");
        let call = script.call("key").arg(&b"\x00\xff"[..]).arg(7);
        let args = |cmd: &Cmd| -> Vec<Vec<u8>> {
            cmd.args_iter()
                .map(|arg| match arg {
                    redis::Arg::Simple(value) => value.to_vec(),
                    _ => Vec::new(),
                })
                .collect()
        };
        let (short, long) = (args(call.by_hash()), args(&call.with_text()));
        assert_eq!(short[0], b"EVALSHA");
        assert_eq!(short[1].len(), 40);
        assert_eq!(long[..2], [b"EVAL".to_vec(), b"return ARGV[1]".to_vec()]);
        assert_eq!(short[2..], long[2..]);
        assert_eq!(
            long[2..],
            [&b"1"[..], b"key", b"\x00\xff", b"7"].map(<[u8]>::to_vec)
        );
    }
}
