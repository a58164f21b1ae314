//! [`Crew`]: processes that are killed, and started again.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use idem_core::BoxError;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

/// Processes of this program; one that ends is replaced. A method fails when a process cannot be
/// started or killed.
#[derive(Debug)]
pub struct Crew {
    command: Command,
    processes: Vec<Child>,
    /// How many this program has killed.
    pub killed: u64,
    /// How many ended by themselves.
    pub died: u64,
}

impl Crew {
    /// Starts `size` processes. Each can end when its standard input does, however this program
    /// ends.
    pub fn start(size: usize, mut command: Command) -> Result<Self, BoxError> {
        command.stdin(Stdio::piped());
        let processes = (0..size).map(|_| command.spawn());
        Ok(Self {
            processes: processes.collect::<Result<_, _>>()?,
            command,
            killed: 0,
            died: 0,
        })
    }

    /// Kills one of them at any point of its work (SIGKILL), and starts another.
    pub async fn kill_one(&mut self) -> Result<(), BoxError> {
        let index = rand::random_range(0..self.processes.len());
        self.processes[index].kill().await?;
        self.processes[index] = self.command.spawn()?;
        self.killed += 1;
        Ok(())
    }

    /// Replaces the processes that have ended. Fails when too many have: then something else is
    /// wrong.
    pub fn replace_the_dead(&mut self) -> Result<(), BoxError> {
        for process in &mut self.processes {
            if let Some(status) = process.try_wait()? {
                self.died += 1;
                if self.died > 200 {
                    return Err(format!("processes end again and again: {status}").into());
                }
                *process = self.command.spawn()?;
            }
        }
        Ok(())
    }

    /// Waits until a process accepts connections at this address. Fails after 30 s.
    pub async fn until_up(&mut self, address: SocketAddr) -> Result<(), BoxError> {
        let up = async {
            while TcpStream::connect(address).await.is_err() {
                self.replace_the_dead()?;
                sleep(Duration::from_millis(5)).await;
            }
            Ok(())
        };
        timeout(Duration::from_secs(30), up).await?
    }

    /// Ends all processes.
    pub async fn dismiss(mut self) {
        for process in &mut self.processes {
            let _ = process.kill().await;
        }
    }
}
