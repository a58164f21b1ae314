//! [`Switch`]: one address in front of several servers, as clouds have it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use idem_core::BoxError;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Forwards each new connection to the current server; existing ones stay where they are.
#[derive(Debug)]
pub(crate) struct Switch {
    url: String,
    server: Arc<Mutex<SocketAddr>>,
    accepting: JoinHandle<()>,
}

impl Switch {
    /// Starts in front of the server of this URL.
    pub(crate) async fn start(url: &str) -> Result<Self, BoxError> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let own = format!("redis://{}", listener.local_addr()?);
        let server = Arc::new(Mutex::new(place(url)?));
        let accepting = tokio::spawn(accept(listener, Arc::clone(&server)));
        Ok(Self {
            url: own,
            server,
            accepting,
        })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Forwards new connections to that server from now on.
    pub(crate) fn turn_to(&self, url: &str) -> Result<(), BoxError> {
        *self.server.lock().unwrap_or_else(PoisonError::into_inner) = place(url)?;
        Ok(())
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn place(url: &str) -> Result<SocketAddr, BoxError> {
    Ok(url.trim_start_matches("redis://").parse()?)
}

async fn accept(listener: TcpListener, server: Arc<Mutex<SocketAddr>>) {
    while let Ok((mut client, _)) = listener.accept().await {
        let place = *server.lock().unwrap_or_else(PoisonError::into_inner);
        tokio::spawn(async move {
            let mut server = TcpStream::connect(place).await?;
            tokio::io::copy_bidirectional(&mut client, &mut server).await
        });
    }
}
