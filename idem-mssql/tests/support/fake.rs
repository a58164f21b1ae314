//! A server that speaks just enough TDS to answer wrongly:
//! <https://learn.microsoft.com/openspecs/windows_protocols/ms-tds>.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The course of a connection.
#[derive(Clone, Copy)]
pub(crate) enum Welcome {
    /// It is closed at once.
    Close,
    /// The server never answers.
    Stall,
    /// The client is redirected.
    Route(SocketAddr),
    /// Requests are answered.
    Login,
}

/// The answer to a request.
#[derive(Clone, Copy)]
pub(crate) enum Answer {
    /// One row with a zero.
    Zero,
    /// No row.
    Nothing,
    /// Half of a row, and no more.
    HalfARow,
    /// Nothing at all.
    Silence,
    /// An error of the server: number and severity.
    Error(i32, u8),
    /// The connection is closed.
    Close,
}

/// The events so far, and the next answers.
#[derive(Default)]
struct State {
    connections: usize,
    open: usize,
    requests: Vec<Vec<u8>>,
    answers: VecDeque<Answer>,
}

/// The server; it ends with the runtime.
pub(crate) struct FakeServer {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl FakeServer {
    /// Starts a server that gives the answers in turn, to any client, and then [`Answer::Zero`] for
    /// ever.
    pub(crate) async fn start(welcome: Welcome, answers: &[Answer]) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let welcome = match welcome {
            // Redirects to itself.
            Welcome::Route(to) if to.port() == 0 => Welcome::Route(address),
            welcome => welcome,
        };
        let state = Arc::new(Mutex::new(State {
            answers: answers.iter().copied().collect(),
            ..State::default()
        }));
        let seen = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let seen = Arc::clone(&seen);
                tokio::spawn(async move {
                    count(&seen, |state| {
                        state.connections += 1;
                        state.open += 1;
                    });
                    let _ = serve(stream, welcome, &seen).await;
                    count(&seen, |state| state.open -= 1);
                });
            }
        });
        Ok(Self { address, state })
    }

    pub(crate) fn url(&self) -> String {
        format!("mssql://sa:secret@{}/shop?encrypt=off", self.address)
    }

    pub(crate) fn connections(&self) -> usize {
        count(&self.state, |state| state.connections)
    }

    pub(crate) fn requests(&self) -> usize {
        count(&self.state, |state| state.requests.len())
    }

    /// Returns, for each request, the first of these texts that it has.
    pub(crate) fn having<'t>(&self, texts: &[&'t str]) -> Vec<&'t str> {
        let wide = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let wide: Vec<(&str, Vec<u8>)> = texts.iter().map(|&text| (text, wide(text))).collect();
        let of = |request: &Vec<u8>| {
            let has =
                |(_, wide): &&(_, Vec<u8>)| request.windows(wide.len()).any(|part| part == wide);
            wide.iter().find(has).map_or("", |(text, _)| *text)
        };
        count(&self.state, |state| state.requests.iter().map(of).collect())
    }

    /// Waits until so many connections are open.
    pub(crate) async fn until_open(&self, connections: usize) {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
        while count(&self.state, |state| state.open) != connections {
            assert!(
                tokio::time::Instant::now() < deadline,
                "connections stay open"
            );
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

fn count<T>(state: &Mutex<State>, change: impl FnOnce(&mut State) -> T) -> T {
    change(&mut state.lock().unwrap_or_else(PoisonError::into_inner))
}

async fn serve(mut stream: TcpStream, welcome: Welcome, state: &Mutex<State>) -> io::Result<()> {
    match welcome {
        Welcome::Close => return Ok(()),
        Welcome::Stall => return silence(&mut stream).await,
        Welcome::Route(_) | Welcome::Login => {}
    }
    message(&mut stream).await?;
    send(&mut stream, &PRELOGIN).await?;
    message(&mut stream).await?;
    let mut login = Vec::new();
    if let Welcome::Route(to) = welcome {
        login.extend(routing(to));
    }
    login.extend(LOGIN_ACK);
    login.extend(done(0));
    send(&mut stream, &login).await?;
    // The settings that a session begins with do not count as a caller's request.
    message(&mut stream).await?;
    send(&mut stream, &done(0)).await?;
    loop {
        let request = message(&mut stream).await?;
        let answer = count(state, |state| {
            state.requests.push(request);
            state.answers.pop_front().unwrap_or(Answer::Zero)
        });
        match answer {
            Answer::Zero => send(&mut stream, &zero()).await?,
            Answer::Nothing => send(&mut stream, &done(0)).await?,
            Answer::Error(number, class) => send(&mut stream, &error(number, class)).await?,
            Answer::HalfARow => {
                let row = zero();
                send(&mut stream, &row[..row.len() - done(0).len() - 2]).await?;
                return silence(&mut stream).await;
            }
            Answer::Silence => return silence(&mut stream).await,
            Answer::Close => return Ok(()),
        }
    }
}

/// Waits until the client closes.
async fn silence(stream: &mut TcpStream) -> io::Result<()> {
    let mut ignored = [0; 512];
    while stream.read(&mut ignored).await? > 0 {}
    Ok(())
}

/// Reads packets until one says that it is the last of the message.
async fn message(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut message = Vec::new();
    loop {
        let mut header = [0; 8];
        stream.read_exact(&mut header).await?;
        let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let mut payload = vec![0; length.saturating_sub(8)];
        stream.read_exact(&mut payload).await?;
        message.append(&mut payload);
        if header[1] & 1 == 1 {
            return Ok(message);
        }
    }
}

/// Sends one packet, the last of its message.
async fn send(stream: &mut TcpStream, payload: &[u8]) -> io::Result<()> {
    let length = u16::try_from(payload.len() + 8).map_err(io::Error::other)?;
    let [high, low] = length.to_be_bytes();
    let mut packet = vec![4, 1, high, low, 0, 0, 1, 0];
    packet.extend_from_slice(payload);
    stream.write_all(&packet).await
}

/// Version 16.0 and no encryption.
const PRELOGIN: [u8; 18] = [0, 0, 11, 0, 6, 1, 0, 17, 0, 1, 0xff, 16, 0, 0, 0, 0, 0, 2];

/// T-SQL, TDS 7.4, a program without a name.
const LOGIN_ACK: [u8; 13] = [0xad, 10, 0, 1, 0x74, 0, 0, 4, 0, 16, 0, 0, 0];

fn done(status: u8) -> [u8; 13] {
    let mut token = [0; 13];
    (token[0], token[1]) = (0xfd, status);
    token
}

/// A column of type int without a name, and a row.
fn zero() -> Vec<u8> {
    let mut tokens = vec![0x81, 1, 0, 0, 0, 0, 0, 0, 0, 0x38, 0];
    tokens.extend([0xd1, 0, 0, 0, 0]);
    tokens.extend(done(0));
    tokens
}

fn error(number: i32, class: u8) -> Vec<u8> {
    let mut body = number.to_le_bytes().to_vec();
    body.extend([1, class]);
    // The message, and neither server nor procedure.
    body.extend([6, 0]);
    body.extend(b"marked".iter().flat_map(|&byte| [byte, 0]));
    body.extend([0, 0]);
    body.extend(1_u32.to_le_bytes());
    let mut tokens = vec![0xaa];
    tokens.extend(u16::try_from(body.len()).unwrap_or_default().to_le_bytes());
    tokens.extend(body);
    tokens.extend(done(2));
    tokens
}

fn routing(to: SocketAddr) -> Vec<u8> {
    let host: Vec<u16> = to.ip().to_string().encode_utf16().collect();
    let length = |length: usize| u16::try_from(length).unwrap_or_default().to_le_bytes();
    let mut value = vec![0];
    value.extend(to.port().to_le_bytes());
    value.extend(length(host.len()));
    value.extend(host.iter().flat_map(|unit| unit.to_le_bytes()));
    let mut body = vec![20];
    body.extend(length(value.len()));
    body.extend(value);
    body.extend([0, 0]);
    let mut token = vec![0xe3];
    token.extend(length(body.len()));
    token.extend(body);
    token
}
