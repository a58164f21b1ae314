//! Data of servers that were just set up: made once for each version, and copied.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::process::Command;

use crate::Result;
use crate::error::Doing;
use crate::node::Node;
use crate::tools::run;
use crate::unpacked::{cache, make_once};

/// Creates the data of a node: a copy of what the first one with these programs, files and commands
/// had after its set-up. A node behind another server has that one's data.
pub(crate) fn create_data(node: &Node) -> Result<()> {
    let server = node.server;
    if server.setup.is_empty() || server.upstream.is_some() || cache().is_none() {
        return node.set_up();
    }
    let program = server.programs[0];
    let version = run(&mut node.command(program, "--version"))?;
    let mut hasher = DefaultHasher::new();
    (version, server.setup, server.files).hash(&mut hasher);
    let name = format!("data/{program}-{:016x}", hasher.finish());
    let (data, mut is_first) = (node.folder.path().join("data"), false);
    let template = make_once(&name, |_, fresh| {
        is_first = true;
        node.set_up()?;
        // MySQL makes this number of a server again where it is missing; each must have its own.
        let _ = fs::remove_file(data.join("auto.cnf"));
        let _ = fs::remove_dir_all(fresh);
        fs::create_dir(fresh).doing(|| format!("cannot create {}", fresh.display()))?;
        copy(&data, fresh)
    })?;
    if is_first {
        Ok(())
    } else {
        copy(&template, &data)
    }
}

/// Copies what is in a folder, with owners and rights; on some file systems without its blocks.
fn copy(from: &Path, to: &Path) -> Result<()> {
    run(Command::new("cp").arg("-a").arg(from.join(".")).arg(to)).map(drop)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::create_data;
    use crate::folder::{Folder, NOBODY, is_root};
    use crate::node::{Node, Runner};
    use crate::unpacked::cache;
    use crate::{Error, Options, Server};

    /// Returns a server whose set-up never makes the same data twice.
    fn server(files: &'static [(&'static str, &'static str)]) -> &'static Server {
        Box::leak(Box::new(Server {
            programs: &["cp"],
            setup: &["cp /proc/sys/kernel/random/uuid {folder}/data/made"],
            files,
            ..Server::new("template-test", |_, _, _| Err(Error::failed("no server")))
        }))
    }

    /// Creates the data of a node, and returns it.
    fn made(server: &'static Server) -> String {
        let folder = Folder::create(server.name, is_root().then_some(NOBODY)).unwrap();
        let runner = Runner::Programs("/bin".into());
        let node = Node::new(server, &runner, &Options::new(), &folder, 0).unwrap();
        create_data(&node).unwrap();
        let made = fs::read_to_string(node.folder.path().join("data/made")).unwrap();
        fs::remove_dir_all(folder.path()).unwrap();
        made
    }

    #[test]
    fn data_is_made_once_however_many_need_it_and_again_for_other_files() {
        let unique: &str = Box::leak(fastrand::u64(..).to_string().into_boxed_str());
        let server = server(Box::leak(Box::new([(unique, "")])));
        let all = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| made(server))).collect();
            let all = threads.into_iter().map(|thread| thread.join().unwrap());
            all.collect::<Vec<_>>()
        });
        assert!(all.iter().all(|made| *made == all[0]), "{all:?}");
        let other = made(self::server(Box::leak(Box::new([(unique, "other")]))));
        assert_ne!(other, all[0]);
        // What this test has left in the cache.
        let left = fs::read_dir(cache().unwrap().join("data")).unwrap();
        for path in left.map(|entry| entry.unwrap().path()) {
            let made = fs::read_to_string(path.join("made")).unwrap_or_default();
            if made == all[0] || made == other {
                fs::remove_dir_all(&path).unwrap();
                fs::remove_file(path.with_extension("lock")).unwrap();
            }
        }
    }
}
