//! [`Proxy`]: a TCP proxy that cuts connections after the request and before the answer.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Armed to cut nothing.
const NEVER: i64 = i64::MIN;

/// Clients that have sent nothing for this long are quiet.
const QUIET: Duration = Duration::from_millis(20);

/// How long the proxy waits for a discarded answer: a message may be only half of a request.
const LONGEST_ANSWER: Duration = Duration::from_secs(1);

/// Forwards between clients and one server. When armed, it lets some messages of clients pass with
/// their answers. It passes the next one to the server, too, waits for the answer, discards it, and
/// cuts the connection on both sides.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    /// Messages that may still pass before the cut.
    passes: AtomicI64,
    /// Whether no connection is left after the cut.
    closes: AtomicBool,
    cuts: AtomicU64,
    messages: AtomicU64,
    closed: watch::Sender<bool>,
    stalled: watch::Sender<bool>,
}

impl Proxy {
    /// Listens on a free port of this machine.
    ///
    /// # Errors
    ///
    /// The operating system's error.
    pub async fn start(server: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            server,
            passes: AtomicI64::new(NEVER),
            closes: AtomicBool::new(false),
            cuts: AtomicU64::new(0),
            messages: AtomicU64::new(0),
            closed: watch::channel(false).0,
            stalled: watch::channel(false).0,
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self {
            address,
            shared,
            accepting,
        })
    }

    /// Returns the address for clients.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets this many messages of clients pass, and cuts at the next.
    pub fn cut_after(&self, passes: u32) {
        self.shared
            .passes
            .store(i64::from(passes), Ordering::SeqCst);
    }

    /// Lets this many messages of clients pass, and cuts at the next, with it all connections, and
    /// later ones at once.
    pub fn close_after(&self, passes: u32) {
        self.shared.closes.store(true, Ordering::SeqCst);
        self.cut_after(passes);
    }

    /// Cuts nothing more.
    pub fn disarm(&self) {
        self.shared.passes.store(NEVER, Ordering::SeqCst);
    }

    /// Returns how many connections it has cut.
    #[must_use]
    pub fn cuts(&self) -> u64 {
        self.shared.cuts.load(Ordering::SeqCst)
    }

    /// Waits until no client sends anything: pools check idle connections.
    pub async fn quiet(&self) {
        let mut before = None;
        while before != Some(self.shared.messages.load(Ordering::SeqCst)) {
            before = Some(self.shared.messages.load(Ordering::SeqCst));
            tokio::time::sleep(QUIET).await;
        }
    }

    /// Stops forwarding, in both directions, and keeps all connections open: clients wait.
    pub fn stall(&self) {
        self.shared.stalled.send_replace(true);
    }

    /// Cuts every connection and accepts no more: no later message of a client reaches the server.
    pub fn close(&self) {
        self.accepting.abort();
        self.shared.closed.send_replace(true);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.close();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let mut closed = shared.closed.subscribe();
            let mut stalled = shared.stalled.subscribe();
            let forwarded = async {
                let stalled = async { drop(stalled.wait_for(|stalled| *stalled).await) };
                // A stall comes first: messages under way stay where they are.
                tokio::select! {
                    biased;
                    () = stalled => std::future::pending().await,
                    _ = forward(client, &shared) => {}
                }
            };
            tokio::select! {
                () = forwarded => {}
                _ = closed.wait_for(|closed| *closed) => {}
            }
        });
    }
}

/// Returns when either side has closed or the connection is to be cut: the caller drops both then.
async fn forward(client: TcpStream, shared: &Shared) -> std::io::Result<()> {
    let server = TcpStream::connect(shared.server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, mut to_client) = client.into_split();
    let (mut from_server, to_server) = server.into_split();
    tokio::select! {
        armed = pass_requests(from_client, to_server, shared) => {
            let kept = armed?;
            // The server has the request; its answer is discarded.
            let mut answer = [0; 16 << 10];
            let answered = from_server.read(&mut answer);
            let _ = tokio::time::timeout(LONGEST_ANSWER, answered).await;
            shared.cuts.fetch_add(1, Ordering::SeqCst);
            if shared.closes.load(Ordering::SeqCst) {
                shared.closed.send_replace(true);
            }
            drop(kept);
            Ok(())
        }
        passed = pass_answers(&mut from_server, &mut to_client) => passed,
    }
}

/// Forwards the client's messages, until the one after which to cut.
async fn pass_requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    shared: &Shared,
) -> std::io::Result<(OwnedReadHalf, OwnedWriteHalf)> {
    let mut message = vec![0; 64 << 10];
    loop {
        let length = from.read(&mut message).await?;
        if length == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        // The task of a connection may learn of the end after its client's message.
        if *shared.closed.borrow() {
            return Err(std::io::ErrorKind::ConnectionAborted.into());
        }
        shared.messages.fetch_add(1, Ordering::SeqCst);
        let armed =
            |passes: i64| (passes != NEVER).then(|| if passes > 0 { passes - 1 } else { NEVER });
        let before = shared
            .passes
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, armed);
        if before == Ok(0) {
            to.write_all(&message[..length]).await?;
            return Ok((from, to));
        }
        to.write_all(&message[..length]).await?;
    }
}

async fn pass_answers(from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf) -> std::io::Result<()> {
    let mut message = vec![0; 64 << 10];
    loop {
        let length = from.read(&mut message).await?;
        if length == 0 {
            return Ok(());
        }
        to.write_all(&message[..length]).await?;
    }
}
