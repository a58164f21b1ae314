//! [`Tap`]: a TCP proxy that records, and that may fall silent.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Forwards between clients and one server, and records both sides.
#[derive(Debug)]
pub(crate) struct Tap {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Shared {
    connections: AtomicUsize,
    messages: AtomicUsize,
    said: Mutex<Vec<u8>>,
    returned: Mutex<Vec<u8>>,
    silent: Mutex<Vec<Arc<AtomicBool>>>,
    refused: Mutex<Option<(&'static str, &'static str)>>,
}

impl Tap {
    /// Listens on a free port of this machine.
    pub(crate) async fn start(server: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let accepting = tokio::spawn(accept(listener, server, Arc::clone(&shared)));
        Ok(Self {
            address,
            shared,
            accepting,
        })
    }

    /// Returns the address for clients.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns how many connections clients have made.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Returns how often bytes arrived from a client's socket: one write may hold many commands.
    pub(crate) fn messages(&self) -> usize {
        self.shared.messages.load(Ordering::SeqCst)
    }

    /// Returns what the clients have sent since the last call.
    pub(crate) fn take(&self) -> String {
        let mut said = lock(&self.shared.said);
        String::from_utf8_lossy(&std::mem::take(&mut *said)).into_owned()
    }

    /// Returns what the server has sent so far.
    pub(crate) fn returned(&self) -> String {
        String::from_utf8_lossy(&lock(&self.shared.returned)).into_owned()
    }

    /// Answers a message that holds this word itself, as a proxy that does not take the command;
    /// with an empty answer it closes the connection.
    pub(crate) fn refuse(&self, word: &'static str, answer: &'static str) {
        *lock(&self.shared.refused) = Some((word, answer));
    }

    /// Stops all traffic on the existing connections, though they stay open; later ones work.
    pub(crate) fn fall_silent(&self) {
        for silent in lock(&self.shared.silent).drain(..) {
            silent.store(true, Ordering::SeqCst);
        }
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(listener: TcpListener, server: SocketAddr, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        shared.connections.fetch_add(1, Ordering::SeqCst);
        let silent = Arc::new(AtomicBool::new(false));
        lock(&shared.silent).push(Arc::clone(&silent));
        let shared = Arc::clone(&shared);
        tokio::spawn(async move { forward(client, server, &shared, &silent).await });
    }
}

async fn forward(
    mut client: TcpStream,
    server: SocketAddr,
    shared: &Shared,
    silent: &AtomicBool,
) -> std::io::Result<()> {
    let mut server = TcpStream::connect(server).await?;
    let (mut question, mut answer) = (vec![0; 256 << 10], vec![0; 256 << 10]);
    loop {
        tokio::select! {
            length = client.read(&mut question) => {
                let said = &question[..length?];
                if said.is_empty() {
                    return Ok(());
                }
                shared.messages.fetch_add(1, Ordering::SeqCst);
                lock(&shared.said).extend_from_slice(said);
                let refused = *lock(&shared.refused);
                match refused.filter(|(word, _)| String::from_utf8_lossy(said).contains(word)) {
                    Some((_, "")) => return Ok(()),
                    Some((_, answer)) => client.write_all(answer.as_bytes()).await?,
                    None if silent.load(Ordering::SeqCst) => {}
                    None => server.write_all(said).await?,
                }
            }
            length = server.read(&mut answer) => {
                let returned = &answer[..length?];
                if returned.is_empty() {
                    return Ok(());
                }
                lock(&shared.returned).extend_from_slice(returned);
                if !silent.load(Ordering::SeqCst) {
                    client.write_all(returned).await?;
                }
            }
        }
    }
}
