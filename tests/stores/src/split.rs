//! A proxy that splits reads from writes, and what may come of it.

use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use idem_core::{BatchStore, BoxError, Claim, ClaimRequest, Fingerprint, Key, Record, Response};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

use crate::ServerUrl;

/// The texts that a proxy calls reads, and whether the answers to claims and to other calls are right
/// behind it; if not, they are errors that name the replica.
pub type Rule = (fn(&str) -> bool, bool, bool);

/// Judges the answers of stores behind proxies that read from a replica, which does not know that the
/// claims are completed, and has nothing of the last.
///
/// # Errors
///
/// The store's or the operating system's.
///
/// # Panics
///
/// Panics when an answer is another one.
pub async fn no_decision_rests_on_a_replica<S: BatchStore>(
    urls: &[ServerUrl; 2],
    rules: &[Rule],
    claims: &[(ClaimRequest, Claim)],
    replica: &str,
    open: impl AsyncFn(&str, bool) -> Result<S, BoxError>,
) -> Result<(), BoxError> {
    let done = Response::new(200, "done");
    let retention = Duration::from_secs(3600);
    for (number, &(reads, claims_right, reads_right)) in rules.iter().enumerate() {
        let url = Split::start(urls, reads).await?;
        for batching in [true, false] {
            let store = open(url.as_str(), batching).await?;
            let judge = |what: &str, is_right: bool, answer: idem_core::Result<bool>| {
                let is_said = match &answer {
                    Ok(said) => is_right && *said,
                    Err(error) => !is_right && format!("{error:?}").contains(replica),
                };
                assert!(is_said, "{what} by rule {number}: {answer:?}");
            };
            let key = Key::new("tenant", "pay", format!("{number} {batching}"))?;
            let fresh = ClaimRequest::new(key, Fingerprint::raw("request"));
            assert_eq!(store.claim(&fresh).await?.name(), "acquired");
            for (request, claim) in claims {
                // The store expects duplicates after a few.
                for _ in 0..8 {
                    let mut claimed = store.claim_many(std::slice::from_ref(request)).await;
                    claimed.push(store.claim(request).await);
                    for claimed in claimed {
                        let replays = claimed.map(|outcome| outcome.name() == "completed");
                        judge("a claim", claims_right, replays);
                    }
                }
                let repeated = store.complete(claim, &done, retention).await;
                judge("a completion", reads_right, repeated.map(|()| true));
            }
            if let Some((request, _)) = claims.last() {
                let record = store.get(request.key()).await;
                let is_done = |record| matches!(record, Some(Record::Completed(_)));
                judge("a read", reads_right, record.map(is_done));
            }
        }
    }
    Ok(())
}

/// The bit of a statement's id that says that a replica has prepared it, in the id's last byte.
const OF_REPLICA: u8 = 0x40;

/// Forwards to the first server, and what a rule calls a read to the second. Both are PostgreSQL's, or
/// MySQL's for a user without a password.
#[derive(Debug, Clone, Copy)]
struct Split {
    is_mysql: bool,
    servers: [SocketAddr; 2],
    reads: fn(&str) -> bool,
}

impl Split {
    /// Listens until the runtime ends, and returns the URL.
    async fn start(urls: &[ServerUrl; 2], reads: fn(&str) -> bool) -> io::Result<ServerUrl> {
        let address = |url: &ServerUrl| url.address().ok_or(io::ErrorKind::AddrNotAvailable);
        let split = Self {
            is_mysql: urls[0].scheme() == "mysql",
            servers: [address(&urls[0])?, address(&urls[1])?],
            reads,
        };
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let through = urls[0].through(listener.local_addr()?);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(split.serve(client));
            }
        });
        let (name, value) = match split.is_mysql {
            true => ("ssl-mode", "disabled"),
            false => ("sslmode", "disable"),
        };
        Ok(through.with(name, value))
    }

    async fn serve(self, mut client: TcpStream) -> io::Result<()> {
        client.set_nodelay(true)?;
        let mut primary = TcpStream::connect(self.servers[0]).await?;
        let mut replica = TcpStream::connect(self.servers[1]).await?;
        if self.is_mysql {
            self.frame(&mut replica, false).await?;
            client
                .write_all(&self.frame(&mut primary, false).await?)
                .await?;
        }
        let hello = self.frame(&mut client, false).await?;
        primary.write_all(&hello).await?;
        replica.write_all(&hello).await?;
        // The client gets the primary's answer.
        while self.frame(&mut replica, true).await?[0] != b'Z' && !self.is_mysql {}
        let (client, to_client) = client.into_split();
        let (primary, to_primary) = primary.into_split();
        let (replica, to_replica) = replica.into_split();
        let (to_client, prepares) = (Mutex::new(to_client), AtomicBool::new(false));
        let never = AtomicBool::new(false);
        tokio::try_join!(
            self.answer(primary, &to_client, &never),
            self.answer(replica, &to_client, &prepares),
            self.ask(client, [to_primary, to_replica], &prepares),
        )?;
        Ok(())
    }

    /// Reads a packet, or a message; PostgreSQL's have a type, except the first.
    async fn frame(self, mut from: impl AsyncRead + Unpin, is_typed: bool) -> io::Result<Vec<u8>> {
        let head = if is_typed && !self.is_mysql { 5 } else { 4 };
        let mut frame = vec![0; head];
        from.read_exact(&mut frame).await?;
        let mut length = [0; 4];
        length.copy_from_slice(&frame[head - 4..]);
        let length = match self.is_mysql {
            true => u32::from_le_bytes(length) & 0xff_ffff,
            false => u32::from_be_bytes(length) - 4,
        };
        frame.resize(head + usize::try_from(length).map_err(io::Error::other)?, 0);
        from.read_exact(&mut frame[head..]).await?;
        Ok(frame)
    }

    /// Forwards answers; only one server has something to say at a time.
    async fn answer(
        self,
        mut from: OwnedReadHalf,
        to: &Mutex<OwnedWriteHalf>,
        prepares: &AtomicBool,
    ) -> io::Result<()> {
        loop {
            let mut frame = self.frame(&mut from, true).await?;
            if prepares.swap(false, Ordering::SeqCst) && frame[4] == 0 {
                frame[8] |= OF_REPLICA;
            }
            to.lock().await.write_all(&frame).await?;
        }
    }

    /// Forwards each statement to its server, and the rest to the primary.
    async fn ask(
        self,
        mut client: OwnedReadHalf,
        mut to: [OwnedWriteHalf; 2],
        prepares: &AtomicBool,
    ) -> io::Result<()> {
        let mut names = HashSet::new();
        let (mut request, mut is_read) = (Vec::new(), false);
        loop {
            let mut frame = self.frame(&mut client, true).await?;
            let kind = frame[if self.is_mysql { 4 } else { 0 }];
            let text = |text: &[u8]| (self.reads)(&String::from_utf8_lossy(text));
            let words: Vec<_> = frame[5..].split(|byte| *byte == 0).collect();
            match (self.is_mysql, kind) {
                (false, b'Q') | (true, 3) => is_read = text(words[0]),
                (false, b'P') => {
                    is_read = text(words[1]);
                    let name = words[0].to_vec();
                    let _ = if is_read {
                        names.insert(name)
                    } else {
                        names.remove(&name)
                    };
                }
                (false, b'B') => is_read = names.contains(words[1]),
                // Prepare; then execute, close, and others with a statement's id.
                (true, 0x16) => {
                    is_read = text(words[0]);
                    prepares.store(is_read, Ordering::SeqCst);
                }
                (true, 0x17..=0x1a) => {
                    is_read = frame[8] & OF_REPLICA != 0;
                    frame[8] &= !OF_REPLICA;
                }
                _ => {}
            }
            request.extend(frame);
            // The server answers a packet, a query, or a row of messages with their end.
            if self.is_mysql || matches!(kind, b'Q' | b'S' | b'X') {
                to[usize::from(is_read)].write_all(&request).await?;
                request.clear();
                is_read = false;
            }
        }
    }
}
