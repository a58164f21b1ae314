//! The server.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use idem_core::IdempotencyStore;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::protocol::{Answer, Request};

type Stores = Arc<Mutex<HashMap<String, Arc<dyn IdempotencyStore>>>>;

/// Serves stores by name on a free port of this machine, on its own thread and runtime, until the
/// process ends.
#[derive(Debug, Clone)]
pub struct Server {
    address: SocketAddr,
    stores: Stores,
}

impl Server {
    /// Starts a server without stores.
    ///
    /// # Errors
    ///
    /// The operating system's error.
    pub fn start() -> std::io::Result<Self> {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let stores = Stores::default();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let serving = Arc::clone(&stores);
        std::thread::spawn(move || {
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener)?;
                loop {
                    let (stream, _) = listener.accept().await?;
                    tokio::spawn(serve(stream, Arc::clone(&serving)));
                }
                #[allow(unreachable_code)]
                std::io::Result::Ok(())
            })
        });
        Ok(Self { address, stores })
    }

    /// Returns the server's address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds a store.
    pub fn insert(&self, name: impl Into<String>, store: Arc<dyn IdempotencyStore>) {
        locked(&self.stores).insert(name.into(), store);
    }

    /// Removes a store.
    pub fn remove(&self, name: &str) {
        locked(&self.stores).remove(name);
    }
}

fn locked(stores: &Stores) -> MutexGuard<'_, HashMap<String, Arc<dyn IdempotencyStore>>> {
    stores.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(stream: TcpStream, stores: Stores) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while stream.read_line(&mut line).await? > 0 {
        let request: Request = serde_json::from_str(&line)?;
        let store = locked(&stores).get(&request.namespace).cloned();
        let store = store.ok_or_else(|| std::io::Error::other("no such store"))?;
        let answer = Answer::of(&*store, request.operation).await;
        line = serde_json::to_string(&answer)?;
        line.push('\n');
        stream.write_all(line.as_bytes()).await?;
        line.clear();
    }
    Ok(())
}
