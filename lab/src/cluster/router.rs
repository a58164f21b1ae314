//! [`Router`]: one address in front of the leader of the day.

use std::net::SocketAddr;

use idem_core::BoxError;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Forwards connections to the leader. When another leads, the connections to the old one end.
#[derive(Debug)]
pub(crate) struct Router {
    address: SocketAddr,
    leader: watch::Sender<SocketAddr>,
    accepting: JoinHandle<()>,
}

impl Router {
    /// Starts in front of the server of this URL.
    pub(crate) async fn start(url: &str) -> Result<Self, BoxError> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let (leader, leads) = watch::channel(address_of(url)?);
        let accepting = tokio::spawn(accept(listener, leads));
        Ok(Self {
            address,
            leader,
            accepting,
        })
    }

    /// Returns the URL with this address in place of the server's own.
    pub(crate) fn in_front_of(&self, url: &str) -> Result<String, BoxError> {
        let own = address_of(url)?.to_string();
        Ok(url.replace(&own, &self.address.to_string()))
    }

    /// Forwards to the server of this URL from now on.
    pub(crate) fn turn_to(&self, url: &str) -> Result<(), BoxError> {
        Ok(self.leader.send(address_of(url)?)?)
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Returns host and port of a URL with an IP address.
pub(crate) fn address_of(url: &str) -> Result<SocketAddr, BoxError> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let place = authority.rsplit('@').next().unwrap_or_default();
    Ok(place.parse()?)
}

async fn accept(listener: TcpListener, leads: watch::Receiver<SocketAddr>) {
    while let Ok((mut client, _)) = listener.accept().await {
        let mut leads = leads.clone();
        tokio::spawn(async move {
            let leader = *leads.borrow_and_update();
            let mut server = TcpStream::connect(leader).await?;
            client.set_nodelay(true)?;
            server.set_nodelay(true)?;
            tokio::select! {
                copied = tokio::io::copy_bidirectional(&mut client, &mut server) => copied.map(drop),
                _ = leads.changed() => Ok(()),
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::address_of;

    #[test]
    fn the_address_of_a_url_is_what_its_client_connects_to() {
        let address = |url| address_of(url).unwrap().to_string();
        let postgres = "postgres://postgres@127.0.0.1:5433/idem?a=1";
        assert_eq!(address(postgres), "127.0.0.1:5433");
        assert_eq!(address("redis://127.0.0.1:7000"), "127.0.0.1:7000");
        assert!(address_of("redis://localhost").is_err());
    }
}
