//! Connects to the address of a name that answers first.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// The pause before the next address is tried; a failure ends it early.
const HEAD_START: Duration = Duration::from_millis(50);

/// Connects to the first address of this name that accepts. The name of an availability group's
/// listener has an address in each subnet, and all except one never answer: trying one after the
/// other would spend the time-out on the first. Other drivers do this with `MultiSubnetFailover`;
/// this one always does:
/// <https://learn.microsoft.com/sql/connect/odbc/linux-mac/connecting-with-sqlcmd#high-availability-and-disaster-recovery>.
pub(crate) async fn connect(name: String) -> io::Result<TcpStream> {
    let addresses = lookup_host(name).await?.collect();
    connect_any(addresses).await
}

async fn connect_any(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    // Dropping it ends the tries that are under way.
    let mut tries = JoinSet::new();
    let mut addresses = addresses.into_iter();
    let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
    loop {
        let next = addresses.next();
        let is_last = next.is_none();
        if let Some(address) = next {
            tries.spawn(TcpStream::connect(address));
        }
        tokio::select! {
            tried = tries.join_next() => match tried {
                Some(Ok(Ok(stream))) => return Ok(stream),
                Some(Ok(Err(error))) => failed = error,
                Some(Err(error)) => failed = io::Error::other(error),
                None if is_last => return Err(failed),
                None => {}
            },
            () = sleep(HEAD_START), if !is_last => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use tokio::net::{TcpListener, TcpSocket};

    fn any() -> SocketAddr {
        (Ipv4Addr::LOCALHOST, 0).into()
    }

    /// Creates a listener whose queue is full: it never answers, like an address without a route.
    async fn silent() -> (TcpListener, Vec<TcpStream>) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(any()).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let mut queue = Vec::new();
        while let Ok(Ok(stream)) =
            tokio::time::timeout(Duration::from_millis(200), TcpStream::connect(address)).await
        {
            queue.push(stream);
        }
        (listener, queue)
    }

    #[tokio::test]
    async fn an_address_that_is_silent_holds_no_other_up() {
        let (silent, _queue) = silent().await;
        let live = TcpListener::bind(any()).await.unwrap();
        let addresses = vec![silent.local_addr().unwrap(), live.local_addr().unwrap()];
        let connecting = connect_any(addresses.clone());
        let stream = tokio::time::timeout(Duration::from_secs(5), connecting).await;
        let stream = stream.expect("the other address answers").unwrap();
        assert_eq!(stream.peer_addr().unwrap(), addresses[1]);
    }

    #[tokio::test]
    async fn when_all_refuse_the_error_names_that() {
        let gone = TcpListener::bind(any())
            .await
            .unwrap()
            .local_addr()
            .unwrap();
        let error = connect_any(vec![gone, gone]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        let error = connect_any(Vec::new()).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrNotAvailable);
    }
}
