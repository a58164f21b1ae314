use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use crate::account::Account;
use crate::error::Doing;
use crate::folder::Folder;
use crate::node::Node;
use crate::port::Reservation;
use crate::process::{Identity, wait_until};
use crate::server::Tls;
use crate::site::Site;
use crate::watchdog::Watchdog;
use crate::{Error, ErrorKind, Options, Product, Result, Server, Signal, Transport};

const TIME_TO_START: Duration = Duration::from_secs(90);
const TIME_TO_STOP: Duration = Duration::from_secs(10);

/// One process of a private server, with the processes that it starts itself.
#[derive(Debug)]
pub(crate) struct Local {
    server: &'static Server,
    programs: PathBuf,
    account: Option<Account>,
    options: Options,
    folder: Folder,
    port: Reservation,
    second_port: Option<Reservation>,
    frozen: bool,
    child: Option<Child>,
    identity: Option<Identity>,
    pub(crate) node: Option<Node>,
}

impl Local {
    /// Creates it in a folder within that one. It does not run yet.
    pub(crate) fn new(
        server: &'static Server,
        programs: &Path,
        options: &Options,
        folder: &Folder,
        number: usize,
    ) -> Result<Self> {
        let account = Account::first_of(server.accounts)?;
        let for_tls = matches!(server.tls, Tls::SecondPort(_));
        let second = server.needs_second_port || for_tls && options.transport == Transport::Tls;
        Ok(Self {
            server,
            programs: programs.into(),
            account,
            options: options.clone(),
            folder: folder.within(&number.to_string(), account)?,
            port: Reservation::new()?,
            second_port: second.then(Reservation::new).transpose()?,
            frozen: false,
            child: None,
            identity: None,
            node: None,
        })
    }

    /// Starts it for the first time, without waiting.
    pub(crate) fn launch(&mut self) -> Result<()> {
        self.server.kind.prepare(&self.site())?;
        self.spawn()
    }

    /// Waits until it answers for the first time.
    pub(crate) fn settle(&mut self) -> Result<Product> {
        let product = self.wait_ready()?;
        self.server.kind.welcome(&self.site())?;
        // Before that some servers refuse logins.
        match product.version {
            None => self.probe(),
            Some(_) => Ok(product),
        }
    }

    fn probe(&self) -> Result<Product> {
        self.server.kind.probe(&self.url(), &self.programs)
    }

    pub(crate) fn url(&self) -> String {
        self.site().url()
    }

    pub(crate) fn port(&self) -> u16 {
        self.port.port()
    }

    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    pub(crate) fn identity(&self) -> Option<Identity> {
        self.identity
    }

    /// Returns whether it runs and is not frozen.
    pub(crate) fn is_running(&self) -> bool {
        !self.frozen && self.identity.is_some_and(|process| process.is_alive())
    }

    pub(crate) fn site(&self) -> Site<'_> {
        Site {
            server: self.server,
            programs: &self.programs,
            folder: self.folder.path(),
            port: self.port.port(),
            second_port: self.second_port.as_ref().map(Reservation::port),
            account: self.account,
            options: &self.options,
            node: self.node.as_ref(),
        }
    }

    /// Starts it in its own process group: neither Ctrl-C nor the end of the terminal reaches it.
    fn spawn(&mut self) -> Result<()> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.folder.log())
            .and_then(|log| Ok((log.try_clone()?, log)));
        let (log, errors) = log.doing(|| "cannot write the server's log".into())?;
        let mut command = self.server.kind.command(&self.site());
        let child = command.stdout(log).stderr(errors).process_group(0).spawn();
        let child = child.doing(|| format!("cannot run {}", command.get_program().display()))?;
        self.identity = Some(Identity::of(child.id()));
        Watchdog::note(self.folder.path(), child.id())?;
        self.child = Some(child);
        Ok(())
    }

    fn wait_ready(&mut self) -> Result<Product> {
        let deadline = Instant::now() + TIME_TO_START;
        let name = self.server.name;
        loop {
            let ended = self.child.as_mut().map(Child::try_wait);
            if let Some(Ok(Some(status))) = ended {
                let log = self.folder.log_tail();
                let what = format!("{name} ended while it started ({status}):{log}");
                return Err(Error::failed(what));
            }
            let product = self.probe().and_then(|product| {
                self.server.kind.is_ready(&self.site())?;
                Ok(product)
            });
            let reason = match product {
                Err(reason) if reason.kind() != ErrorKind::Missing => reason,
                settled => return settled,
            };
            if Instant::now() > deadline {
                let log = self.folder.log_tail();
                let waited = TIME_TO_START.as_secs();
                let what = format!("{name} was not ready in {waited} s ({reason:?}):{log}");
                return Err(Error::failed(what));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends SIGKILL to the server, then to the processes that it had started, which in PostgreSQL
    /// would otherwise continue until they notice. No process of it runs when this returns.
    pub(crate) fn kill(&mut self) -> Result<()> {
        let Some(main) = self.identity else {
            return Ok(());
        };
        let mut processes = main.children();
        main.signal(Signal::Kill);
        self.forget();
        processes
            .iter()
            .for_each(|child| child.signal(Signal::Kill));
        processes.push(main);
        if processes
            .iter()
            .all(|process| process.wait_gone(TIME_TO_STOP))
        {
            Ok(())
        } else {
            Err(Error::failed(format!(
                "{} survived SIGKILL",
                self.server.name
            )))
        }
    }

    /// Sends SIGSTOP to the server and to the processes that it had started.
    pub(crate) fn freeze(&mut self) {
        if let Some(main) = self.identity {
            main.freeze();
            main.children().iter().for_each(Identity::freeze);
            self.frozen = true;
        }
    }

    /// Sends SIGCONT to the same processes.
    pub(crate) fn thaw(&mut self) {
        if let (true, Some(main)) = (self.frozen, self.identity) {
            main.children().iter().for_each(Identity::thaw);
            main.thaw();
        }
        self.frozen = false;
    }

    /// Ends the server by its own signal for an immediate end.
    pub(crate) fn stop(&mut self) -> Result<()> {
        let Some(main) = self.identity else {
            return Ok(());
        };
        self.thaw();
        main.signal(self.server.stop_signal);
        let ended = wait_until(TIME_TO_STOP, || match &mut self.child {
            Some(child) => !matches!(child.try_wait(), Ok(None)),
            None => !main.is_alive(),
        });
        if !ended {
            return self.kill();
        }
        self.forget();
        Ok(())
    }

    /// Restarts it on the same data and port, and waits until it answers.
    pub(crate) fn restart(&mut self) -> Result<()> {
        self.stop()?;
        self.spawn()?;
        self.wait_ready().map(drop)
    }

    /// Reaps the process, which has ended or is about to.
    fn forget(&mut self) {
        self.frozen = false;
        self.identity = None;
        if let Some(mut child) = self.child.take() {
            let _ = child.wait();
        }
        let _ = fs::remove_file(self.folder.path().join(Watchdog::NOTE));
    }
}
