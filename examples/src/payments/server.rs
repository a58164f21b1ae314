//! [`Server`]: the process of the endpoint, and its kills.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use idem_core::BoxError;
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

/// A process of this program that serves, always at the same address.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    arguments: Vec<String>,
    child: Child,
}

impl Server {
    /// Starts the process with these arguments and `--serve ADDRESS`.
    ///
    /// # Errors
    ///
    /// An error when it cannot be started.
    pub async fn start(arguments: Vec<String>) -> Result<Self, BoxError> {
        let free = TcpListener::bind("127.0.0.1:0").await?;
        let address = free.local_addr()?;
        drop(free);
        let child = spawn(&arguments, address)?;
        let mut server = Self {
            address,
            arguments,
            child,
        };
        server.is_up().await?;
        Ok(server)
    }

    /// Returns its address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    async fn is_up(&mut self) -> Result<(), BoxError> {
        let up = async {
            while TcpStream::connect(self.address).await.is_err() {
                if let Some(status) = self.child.try_wait()? {
                    return Err(format!("the server ended: {status}").into());
                }
                sleep(Duration::from_millis(5)).await;
            }
            Ok(())
        };
        timeout(Duration::from_secs(30), up).await?
    }

    /// Kills the process (`kill -9`), and starts another.
    ///
    /// # Errors
    ///
    /// An error when the new process cannot be started.
    pub async fn kill_and_restart(&mut self) -> Result<(), BoxError> {
        self.child.kill().await?;
        self.child = spawn(&self.arguments, self.address)?;
        self.is_up().await
    }

    /// Ends the process.
    ///
    /// # Errors
    ///
    /// An error when it cannot be killed.
    pub async fn stop(mut self) -> Result<(), BoxError> {
        Ok(self.child.kill().await?)
    }
}

fn spawn(arguments: &[String], address: SocketAddr) -> Result<Child, BoxError> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(arguments)
        .arg("--serve")
        .arg(address.to_string());
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(true);
    Ok(command.spawn()?)
}
