use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use crate::error::Doing;
use crate::folder::Folder;
use crate::galera::Node;
use crate::port::Reservation;
use crate::process::{Identity, wait_until};
use crate::site::{Account, Site};
use crate::watchdog::Watchdog;
use crate::{Error, Lifetime, Options, Product, Result, Server, Signal};

const TIME_TO_START: Duration = Duration::from_secs(90);
const TIME_TO_STOP: Duration = Duration::from_secs(10);

/// A server of our own, running from programs on this machine.
#[derive(Debug)]
pub(crate) struct Local {
    server: &'static dyn Server,
    programs: PathBuf,
    account: Option<Account>,
    options: Options,
    folder: Folder,
    port: Reservation,
    second_port: Option<Reservation>,
    frozen: bool,
    child: Option<Child>,
    identity: Option<Identity>,
    watchdog: Option<Watchdog>,
    node: Option<Node>,
}

impl Local {
    pub(crate) fn start(
        server: &'static dyn Server,
        programs: &Path,
        options: &Options,
    ) -> Result<(Self, Product)> {
        let account = Account::for_server(server.account())?;
        let folder = Folder::create(server.name(), account)?;
        let mut local = Self::new(server, programs, options, folder, account)?;
        if options.lifetime == Lifetime::Scoped {
            local.watchdog = Some(Watchdog::start(local.folder.path(), server.stop_signal())?);
        }
        let product = local.begin()?;
        Ok((local, product))
    }

    /// One node of a cluster, in a folder within the cluster's, over which the cluster's watchdog watches.
    pub(crate) fn of_cluster(
        server: &'static dyn Server,
        programs: &Path,
        options: &Options,
        folder: &Folder,
        number: usize,
    ) -> Result<Self> {
        let account = Account::for_server(server.account())?;
        let folder = folder.within(&number.to_string(), account)?;
        Self::new(server, programs, options, folder, account)
    }

    fn new(
        server: &'static dyn Server,
        programs: &Path,
        options: &Options,
        folder: Folder,
        account: Option<Account>,
    ) -> Result<Self> {
        Ok(Self {
            server,
            programs: programs.into(),
            account,
            options: options.clone(),
            folder,
            port: Reservation::new()?,
            second_port: server
                .needs_second_port(options)
                .then(Reservation::new)
                .transpose()?,
            frozen: false,
            child: None,
            identity: None,
            watchdog: None,
            node: None,
        })
    }

    /// The first start.
    pub(crate) fn begin(&mut self) -> Result<Product> {
        self.server.prepare(&self.site())?;
        self.spawn()?;
        self.wait_ready()?;
        self.server.welcome(&self.url())?;
        self.server.probe(&self.url())
    }

    pub(crate) fn url(&self) -> String {
        self.server.url(self.port.port())
    }

    pub(crate) fn port(&self) -> u16 {
        self.port.port()
    }

    pub(crate) fn tls_url(&self) -> Option<String> {
        self.server.tls_url(&self.site())
    }

    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    pub(crate) fn identity(&self) -> Option<Identity> {
        self.identity
    }

    /// Whether it can be asked.
    pub(crate) fn is_running(&self) -> bool {
        !self.frozen && self.identity.is_some_and(|process| process.is_alive())
    }

    pub(crate) fn set_node(&mut self, node: Node) {
        self.node = Some(node);
    }

    pub(crate) fn node_mut(&mut self) -> Option<&mut Node> {
        self.node.as_mut()
    }

    pub(crate) fn site(&self) -> Site<'_> {
        Site {
            programs: &self.programs,
            folder: self.folder.path(),
            port: self.port.port(),
            second_port: self.second_port.as_ref().map(Reservation::port),
            account: self.account,
            options: &self.options,
            node: self.node.as_ref(),
        }
    }

    fn pid_file(&self) -> PathBuf {
        self.folder.path().join(Watchdog::NOTE)
    }

    /// In a process group of its own: neither Ctrl-C nor the end of the terminal reaches it.
    fn spawn(&mut self) -> Result<()> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.folder.log());
        let log = log.doing(|| "cannot write the server's log".into())?;
        let errors = log
            .try_clone()
            .doing(|| "cannot write the server's log".into())?;
        let mut command = self.server.command(&self.site());
        let child = command.stdout(log).stderr(errors).process_group(0).spawn();
        let child = child.doing(|| format!("cannot run {}", command.get_program().display()))?;
        self.identity = Some(Identity::of(child.id()));
        Watchdog::note(self.folder.path(), child.id())?;
        self.child = Some(child);
        Ok(())
    }

    fn wait_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + TIME_TO_START;
        let name = self.server.name();
        loop {
            if let Some(status) = self
                .child
                .as_mut()
                .and_then(|child| child.try_wait().ok().flatten())
            {
                let log = self.folder.log_tail();
                return Err(Error::failed(format!(
                    "{name} ended while it started ({status}):{log}"
                )));
            }
            let answer = self.server.probe(&self.url());
            let Err(reason) = answer.and_then(|_| self.server.is_ready(&self.site())) else {
                return Ok(());
            };
            if Instant::now() > deadline {
                let log = self.folder.log_tail();
                let waited = TIME_TO_START.as_secs();
                return Err(Error::failed(format!(
                    "{name} was not ready in {waited} s ({reason:?}):{log}"
                )));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// SIGKILL to the server, then to the processes it had started, which in PostgreSQL would otherwise go on
    /// until they notice. No process of it runs when this returns.
    pub(crate) fn kill(&mut self) -> Result<()> {
        let Some(main) = self.identity.take() else {
            return Ok(());
        };
        self.frozen = false;
        let children = main.children();
        main.signal(Signal::Kill);
        self.reap();
        children.iter().for_each(|child| child.signal(Signal::Kill));
        let _ = fs::remove_file(self.pid_file());
        let gone = children
            .iter()
            .chain([&main])
            .all(|process| process.wait_gone(TIME_TO_STOP));
        if gone {
            Ok(())
        } else {
            Err(Error::failed(format!(
                "{} survived SIGKILL",
                self.server.name()
            )))
        }
    }

    /// SIGSTOP to the server and to the processes it had started.
    pub(crate) fn freeze(&mut self) {
        if let Some(main) = self.identity {
            main.freeze();
            main.children().iter().for_each(Identity::freeze);
            self.frozen = true;
        }
    }

    /// SIGCONT to the same.
    pub(crate) fn thaw(&mut self) {
        if let (true, Some(main)) = (self.frozen, self.identity) {
            main.children().iter().for_each(Identity::thaw);
            main.thaw();
        }
        self.frozen = false;
    }

    /// The server's own way to end at once.
    pub(crate) fn stop(&mut self) -> Result<()> {
        let Some(main) = self.identity else {
            return Ok(());
        };
        self.thaw();
        main.signal(self.server.stop_signal());
        let ended = wait_until(TIME_TO_STOP, || match &mut self.child {
            Some(child) => !matches!(child.try_wait(), Ok(None)),
            None => !main.is_alive(),
        });
        if !ended {
            return self.kill();
        }
        self.identity = None;
        self.reap();
        let _ = fs::remove_file(self.pid_file());
        Ok(())
    }

    /// Starts it again on the same data and port, and waits until it answers.
    pub(crate) fn restart(&mut self) -> Result<()> {
        self.stop()?;
        self.spawn()?;
        self.wait_ready()
    }

    fn reap(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.wait();
        }
    }

    /// Ends the server and removes its folder.
    pub(crate) fn clear(&mut self) -> Result<()> {
        let ended = self.stop();
        self.folder.remove();
        self.watchdog = None;
        ended
    }

    /// Lets go of a detached server.
    pub(crate) fn release(&mut self) {
        self.identity = None;
        self.child = None;
    }

    pub(crate) fn is_released(&self) -> bool {
        self.options.lifetime == Lifetime::Detached
            && self.child.is_none()
            && self.identity.is_none()
    }
}

/// Also after a start that failed half-way.
impl Drop for Local {
    fn drop(&mut self) {
        if !self.is_released() {
            let _ = self.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use super::Local;
    use crate::site::{Account, is_root};
    use crate::{Error, Options, Product, Result, Server, Site};

    /// Says why and gives up.
    #[derive(Debug)]
    struct Broken;

    impl Server for Broken {
        fn name(&self) -> &'static str {
            "broken"
        }

        fn product(&self) -> &'static str {
            "Broken"
        }

        fn packages(&self) -> &'static [&'static str] {
            &[]
        }

        fn account(&self) -> &'static str {
            "nobody"
        }

        fn programs(&self) -> Option<PathBuf> {
            None
        }

        fn prepare(&self, _site: &Site<'_>) -> Result<()> {
            Ok(())
        }

        fn command(&self, site: &Site<'_>) -> Command {
            let mut command = site.command("sh");
            command.args(["-c", "id -u; echo the disk is on fire >&2; exit 3"]);
            command
        }

        fn url(&self, port: u16) -> String {
            format!("broken://127.0.0.1:{port}")
        }

        fn probe(&self, _url: &str) -> Result<Product> {
            Err(Error::failed("does not answer"))
        }
    }

    #[test]
    fn a_server_that_does_not_start_shows_its_log() {
        let error = Local::start(&Broken, Path::new("/bin"), &Options::new())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("exit status: 3") && error.contains("\n    the disk is on fire"),
            "{error}"
        );
    }

    #[test]
    fn a_server_does_not_run_as_root() {
        if !is_root() {
            return;
        }
        let nobody = Account::for_server("nobody").unwrap().unwrap();
        let error = Local::start(&Broken, Path::new("/bin"), &Options::new())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(&format!("\n    {}\n", nobody.uid)),
            "{error}"
        );
        let error = Account::for_server("idem-no-such-account")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("useradd --system idem-no-such-account"),
            "{error}"
        );
    }
}
