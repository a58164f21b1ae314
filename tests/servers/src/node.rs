use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::container;
use crate::error::Doing;
use crate::folder::{Folder, is_in_use};
use crate::port::Reservation;
use crate::process::{children, inside, send, wait_until};
use crate::server::{Setting, words};
use crate::template::create_data;
use crate::tools::{decoded, parse, run, tool};
use crate::watchdog::NOTE;
use crate::{Durability, Error, ErrorKind, Options, Product, Result, Server, Transport};

const TIME_TO_START: Duration = Duration::from_secs(90);
/// The image may have to be downloaded first.
const TIME_TO_START_CONTAINER: Duration = Duration::from_secs(600);
const TIME_TO_STOP: Duration = Duration::from_secs(10);

/// Makes an authority for one server, and the server's certificate for `localhost` and 127.0.0.1:
/// clients refuse an authority's own as a server's.
const CERTIFICATES: &[&str] = &[
    "openssl req -x509 -nodes -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -days 3650 \
     -subj /CN=idem-test-authority -keyout ca.key -out ca.crt",
    "openssl req -x509 -nodes -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -days 3650 \
     -subj /CN=localhost -keyout server.key -out server.crt -CA ca.crt -CAkey ca.key \
     -addext basicConstraints=CA:FALSE -addext extendedKeyUsage=serverAuth \
     -addext subjectAltName=DNS:localhost,IP:127.0.0.1",
];

/// What runs a private server.
#[derive(Clone, Debug)]
pub(crate) enum Runner {
    /// The programs in this folder.
    Programs(PathBuf),
    /// A container, by this program.
    Container(PathBuf),
}

/// One process of a private server, with the processes that it starts itself.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) server: &'static Server,
    runner: Runner,
    pub(crate) options: Options,
    pub(crate) folder: Folder,
    /// The URL for clients.
    pub(crate) url: String,
    /// The product that answers there, once it has answered.
    pub(crate) product: Product,
    ports: Vec<Reservation>,
    variables: Vec<(String, String)>,
    /// More arguments for the next start of a cluster's node.
    pub(crate) role: &'static str,
    frozen: bool,
    process: Option<Child>,
}

impl Node {
    /// Creates it in a folder within that one. It does not run yet.
    pub(crate) fn new(
        server: &'static Server,
        runner: &Runner,
        options: &Options,
        folder: &Folder,
        number: usize,
    ) -> Result<Self> {
        let has_tls_port = server.tls.is_some_and(|tls| tls.scheme.is_some());
        let ports = 0..server.ports + usize::from(has_tls_port);
        let ports = ports.map(|_| Reservation::new());
        let ports: Vec<_> = ports.collect::<Result<_>>()?;
        let url = server.url(ports[0].port());
        let mut node = Self {
            server,
            runner: runner.clone(),
            options: options.clone(),
            folder: folder.within(&number.to_string())?,
            url,
            product: Product::new(server.product, None),
            ports,
            variables: Vec::new(),
            role: "",
            frozen: false,
            process: None,
        };
        let path = |path: &Path| path.display().to_string();
        node.set("folder", path(node.folder.path()));
        node.set("programs", path(node.programs()));
        node.set("port", node.port(0).to_string());
        for number in 1..node.ports.len() {
            node.set(&format!("port{number}"), node.port(number).to_string());
        }
        if let Some(upstream) = server.upstream {
            node.set_upstream(upstream)?;
        }
        Ok(node)
    }

    /// Sets a variable of the templates.
    pub(crate) fn set(&mut self, name: &str, value: impl Into<String>) {
        self.variables.push((format!("{{{name}}}"), value.into()));
    }

    fn set_upstream(&mut self, upstream: &str) -> Result<()> {
        let name = self.server.name;
        let missing = || Error::failed(format!("{name} needs the URL of a {upstream}"));
        let url = parse(self.options.upstream.as_deref().ok_or_else(missing)?)?;
        let default = crate::server(upstream)?.image.map_or(0, |image| image.port);
        let host = url.host_str().unwrap_or("localhost");
        // PostgreSQL's usual user has its name.
        let user = decoded(Some(url.username())).unwrap_or_else(|| upstream.into());
        let quoted = |value: String| format!("'{}'", value.replace('\'', "''"));
        let mut login = format!("user={}", quoted(user));
        if let Some(password) = decoded(url.password()) {
            login += &format!(" password={}", quoted(password));
        }
        self.set("host", host);
        self.set("host_port", url.port().unwrap_or(default).to_string());
        self.set("login", login);
        Ok(())
    }

    /// Fills a template in. Its variables are `{folder}` of this process, `{programs}` of the
    /// server, `{port}` for clients, `{port1}` and so on, `{peers}`, which are the addresses of all
    /// nodes at `{port1}`, and `{host}`, `{host_port}` and `{login}` of the server behind this one.
    pub(crate) fn fill(&self, template: &str) -> String {
        let fill = |text: String, (name, value): &(String, String)| text.replace(name, value);
        self.variables.iter().fold(template.to_owned(), fill)
    }

    pub(crate) fn port(&self, number: usize) -> u16 {
        self.ports.get(number).map_or(0, Reservation::port)
    }

    pub(crate) fn programs(&self) -> &Path {
        match &self.runner {
            Runner::Programs(folder) => folder,
            Runner::Container(_) => Path::new(""),
        }
    }

    /// Returns the URL for TLS clients, if TLS has a separate port.
    pub(crate) fn tls_url(&self) -> Option<String> {
        let scheme = self.server.tls?.scheme.filter(|_| self.has_tls())?;
        Some(format!("{scheme}://localhost:{}", self.port(1)))
    }

    /// Returns the certificate of the server's authority, if it speaks TLS.
    pub(crate) fn ca_certificate(&self) -> Option<PathBuf> {
        let path = self.folder.path().join("ca.crt");
        self.has_tls().then_some(path)
    }

    fn has_tls(&self) -> bool {
        self.options.transport == Transport::Tls
    }

    /// Returns whether it runs and is not frozen.
    pub(crate) fn is_running(&self) -> bool {
        !self.frozen && is_in_use(self.folder.path())
    }

    /// Returns a command with the server's folder and account.
    pub(crate) fn command(&self, program: &str, arguments: &str) -> Command {
        let mut command = tool(self.programs(), &[program]);
        command.args(words(arguments).map(|word| self.fill(word)));
        self.folder.settle(&mut command);
        command
    }

    /// Returns the command that runs the server in the foreground.
    pub(crate) fn server_command(&self) -> Command {
        let server = self.server;
        let durability = match self.options.durability {
            Durability::Fast => server.fast,
            Durability::Durable => server.durable,
        };
        let tls = server.tls.filter(|_| self.has_tls());
        let tls = tls.map_or("", |tls| tls.arguments);
        let role = self.role;
        let arguments = [server.arguments, server.options, durability, tls, role].join(" ");
        let mut command = self.command(server.programs[0], &arguments);
        if let Setting::Arguments(line) = server.setting {
            for setting in &self.options.settings {
                command.args(words(line).map(|word| set(word, setting)));
            }
        }
        let Some(wrapper) = &self.options.wrapper else {
            return command;
        };
        let mut wrapped = Command::new(wrapper);
        wrapped.arg(command.get_program()).args(command.get_args());
        self.folder.settle(&mut wrapped);
        wrapped
    }

    /// Writes its files and creates its data.
    pub(crate) fn prepare(&self) -> Result<()> {
        let settings = self.options.settings.iter();
        let mut settings: String = match self.server.setting {
            Setting::Line(line) => settings.map(|setting| set(line, setting)).collect(),
            _ => String::new(),
        };
        for (name, text) in self.server.files {
            let text = self.fill(text) + &std::mem::take(&mut settings);
            self.folder.write(name, &text)?;
        }
        let certificates = if self.has_tls() { CERTIFICATES } else { &[] };
        certificates.iter().try_for_each(|line| self.run(line))?;
        create_data(self)
    }

    /// Runs the commands that create its data.
    pub(crate) fn set_up(&self) -> Result<()> {
        self.server.setup.iter().try_for_each(|line| self.run(line))
    }

    fn run(&self, line: &str) -> Result<()> {
        let (program, arguments) = line.split_once(' ').unwrap_or((line, ""));
        run(&mut self.command(program, arguments)).map(drop)
    }

    /// Starts it for the first time, without waiting.
    pub(crate) fn launch(&mut self) -> Result<()> {
        if let Runner::Programs(_) = self.runner {
            self.prepare()?;
        }
        self.spawn()
    }

    /// Starts it in its own process group: neither Ctrl-C nor the end of the terminal reaches it.
    pub(crate) fn spawn(&mut self) -> Result<()> {
        let mut command = match &self.runner {
            Runner::Programs(_) => self.server_command(),
            Runner::Container(program) => {
                let mut command = Command::new(program);
                self.folder.settle(command.arg(self.server.name));
                command
            }
        };
        let log = self.folder.open_log()?;
        let errors = log.try_clone().doing(|| "cannot write the log".into())?;
        let child = command.stdout(log).stderr(errors).process_group(0).spawn();
        let child = child.doing(|| format!("cannot run {}", command.get_program().display()))?;
        let note = format!("{}\n", child.id());
        self.process = Some(child);
        self.folder.write(NOTE, &note)
    }

    fn probe(&mut self) -> Result<Product> {
        match &self.runner {
            Runner::Container(_) => {
                let (url, product) = container::started(self.server, &self.folder.log())?;
                self.url = url;
                Ok(product)
            }
            Runner::Programs(programs) => {
                let product = (self.server.probe)(self.server, &self.url, programs)?;
                (self.server.is_ready)(self)?;
                Ok(product)
            }
        }
    }

    pub(crate) fn wait_ready(&mut self) -> Result<()> {
        let patience = match self.runner {
            Runner::Programs(_) => TIME_TO_START,
            Runner::Container(_) => TIME_TO_START_CONTAINER,
        };
        let deadline = Instant::now() + patience;
        let failure = loop {
            let ended = self.process.as_mut().map(Child::try_wait);
            if let Some(Ok(Some(status))) = ended {
                break format!("ended while it started ({status})");
            }
            match self.probe() {
                Ok(product) => {
                    // It may take connections only since the request for its version.
                    let is_known = product.version.is_some();
                    self.product = if is_known { product } else { self.probe()? };
                    return Ok(());
                }
                Err(reason) if reason.kind() == ErrorKind::Missing => return Err(reason),
                Err(reason) if Instant::now() > deadline => {
                    break format!("was not ready in {} s ({reason:?})", patience.as_secs());
                }
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        let (name, log) = (self.server.name, self.folder.log_tail());
        Err(Error::failed(format!("{name} {failure}:{log}")))
    }

    /// Sends SIGKILL to the server, then to the processes that it had started, which in PostgreSQL
    /// would otherwise continue until they notice, and under Patroni go on. No process of it runs
    /// when this returns.
    pub(crate) fn kill(&mut self) -> Result<()> {
        let Some(main) = &self.process else {
            return Ok(());
        };
        let (main, started) = (main.id(), children(main.id()));
        send(main, Signal::KILL);
        self.reap();
        started
            .into_iter()
            .for_each(|child| send(child, Signal::KILL));
        let folder = self.folder.path();
        let gone = wait_until(TIME_TO_STOP, || {
            inside(folder)
                .into_iter()
                .for_each(|rest| send(rest, Signal::KILL));
            !is_in_use(folder)
        });
        let survived = || Error::failed(format!("{} survived SIGKILL", self.server.name));
        gone.then_some(()).ok_or_else(survived)
    }

    /// Sends SIGSTOP to the server, then to the processes that it had started.
    pub(crate) fn freeze(&mut self) {
        self.send(Signal::STOP);
        self.frozen = true;
    }

    /// Sends SIGCONT to the same processes.
    pub(crate) fn thaw(&mut self) {
        if self.frozen {
            self.send(Signal::CONT);
            self.frozen = false;
        }
    }

    fn send(&self, signal: Signal) {
        if let Some(main) = self.process.as_ref().map(Child::id) {
            send(main, signal);
            let others = children(main).into_iter();
            others
                .chain(inside(self.folder.path()))
                .for_each(|other| send(other, signal));
        }
    }

    /// Ends the server by its own signal for an immediate end.
    pub(crate) fn stop(&mut self) -> Result<()> {
        self.thaw();
        let Some(child) = &mut self.process else {
            return Ok(());
        };
        send(child.id(), self.server.stop_signal);
        if !wait_until(TIME_TO_STOP, || !matches!(child.try_wait(), Ok(None))) {
            return self.kill();
        }
        self.reap();
        Ok(())
    }

    /// Restarts it on the same data and port, and waits until it answers.
    pub(crate) fn restart(&mut self) -> Result<()> {
        self.stop()?;
        self.spawn()?;
        self.wait_ready()
    }

    /// Reaps the process, which has ended or is about to.
    pub(crate) fn reap(&mut self) {
        self.frozen = false;
        if let Some(mut child) = self.process.take() {
            let _ = child.wait();
        }
        let _ = fs::remove_file(self.folder.path().join(NOTE));
    }
}

/// Fills a setting in.
fn set(template: &str, (name, value): &(String, String)) -> String {
    template.replace("{name}", name).replace("{value}", value)
}

#[cfg(test)]
mod tests {
    use super::{Node, Runner};
    use crate::folder::Folder;
    use crate::{Options, server};

    fn pgbouncer(upstream: &str) -> crate::Result<String> {
        let folder = Folder::create("node-test", None)?;
        let runner = Runner::Programs("/bin".into());
        let options = Options::new().with_upstream(upstream);
        let node = Node::new(server("pgbouncer")?, &runner, &options, &folder, 0);
        std::fs::remove_dir_all(folder.path()).unwrap();
        let (_, file) = server("pgbouncer")?.files[0];
        node.map(|node| node.fill(file))
    }

    #[test]
    fn the_server_behind_is_named_with_its_log_in() {
        let text = pgbouncer("postgres://me:s%40c%27t@db:5433/idem").unwrap();
        let line = "* = host='db' port=5433 user='me' password='s@c''t'\n";
        assert!(text.contains(line), "{text}");
        let text = pgbouncer("postgres://db/idem").unwrap();
        let line = "* = host='db' port=5432 user='postgres'\n";
        assert!(text.contains(line), "{text}");
    }
}
