use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(2);
const PING: &[u8] = b"GET /_ping HTTP/1.0\r\nHost: localhost\r\n\r\n";

/// The container engine that answers, as a value for `DOCKER_HOST`: the one that `DOCKER_HOST` names, and no
/// other, where it is set; else Docker's and podman's usual sockets.
pub fn engine() -> Option<String> {
    candidates(&|name| std::env::var(name).ok())
        .into_iter()
        .find(|host| answers(host).unwrap_or(false))
}

/// What would be asked, for the message when none answers.
pub(crate) fn candidates(variable: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let set = |name| variable(name).filter(|value| !value.is_empty());
    if let Some(host) = set("DOCKER_HOST") {
        return vec![host];
    }
    let mut sockets = vec![PathBuf::from("/var/run/docker.sock")];
    if let Some(runtime) = set("XDG_RUNTIME_DIR").map(PathBuf::from) {
        sockets.extend(["docker.sock", "podman/podman.sock"].map(|socket| runtime.join(socket)));
    }
    if let Some(home) = set("HOME").map(PathBuf::from) {
        sockets.push(home.join(".docker/run/docker.sock"));
    }
    sockets.push("/run/podman/podman.sock".into());
    sockets
        .into_iter()
        .map(|socket| format!("unix://{}", socket.display()))
        .collect()
}

fn answers(host: &str) -> io::Result<bool> {
    if let Some(path) = host.strip_prefix("unix://") {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        return ping(stream);
    }
    let address = host
        .split_once("://")
        .map_or(host, |(_, address)| address)
        .trim_end_matches('/');
    for address in address.to_socket_addrs()? {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        if ping(stream)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn ping(mut stream: impl Read + Write) -> io::Result<bool> {
    stream.write_all(PING)?;
    let mut answer = [0; 15];
    stream.read_exact(&mut answer)?;
    Ok(answer.starts_with(b"HTTP/1.") && &answer[9..12] == b"200")
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::{PING, answers, candidates};

    #[test]
    fn docker_host_is_asked_alone_where_it_is_set() {
        let asked = candidates(&|name| (name == "DOCKER_HOST").then(|| "tcp://build:2375".into()));
        assert_eq!(asked, ["tcp://build:2375"]);
    }

    #[test]
    fn without_it_dockers_socket_comes_before_podmans() {
        let asked = candidates(&|name| (name == "XDG_RUNTIME_DIR").then(|| "/run/user/7".into()));
        assert_eq!(
            asked.first().map(String::as_str),
            Some("unix:///var/run/docker.sock")
        );
        assert!(
            asked.contains(&"unix:///run/user/7/podman/podman.sock".into()),
            "{asked:?}"
        );
    }

    #[test]
    fn an_engine_is_known_by_its_answer_to_a_ping() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = format!("tcp://{}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            for status in ["200 OK", "404 Not Found"] {
                let mut stream = listener.accept().unwrap().0;
                stream.read_exact(&mut [0; PING.len()]).unwrap();
                stream
                    .write_all(format!("HTTP/1.0 {status}\r\n\r\n").as_bytes())
                    .unwrap();
            }
        });
        assert!(answers(&host).unwrap());
        assert!(!answers(&host).unwrap());
        server.join().unwrap();
        assert!(answers(&host).is_err());
    }
}
