//! [`Crew`]: processes that are killed, and started again.

use std::process::Stdio;

use idem_core::BoxError;
use tokio::process::{Child, Command};

/// Processes of this program; one that ends is replaced.
#[derive(Debug)]
pub struct Crew<F> {
    command: F,
    processes: Vec<Child>,
    /// How many this program has killed.
    pub killed: u64,
    /// How many ended by themselves.
    pub died: u64,
}

impl<F: Fn() -> Result<Command, BoxError>> Crew<F> {
    /// Starts `size` processes.
    ///
    /// # Errors
    ///
    /// An error when a process cannot be started.
    pub fn start(size: usize, command: F) -> Result<Self, BoxError> {
        let processes = (0..size.max(1)).map(|_| spawn(&command));
        Ok(Self {
            processes: processes.collect::<Result<_, _>>()?,
            command,
            killed: 0,
            died: 0,
        })
    }

    /// Kills one of them at any point of its work (SIGKILL), and starts another.
    ///
    /// # Errors
    ///
    /// An error when it cannot be killed, or no other can be started.
    pub async fn kill_one(&mut self) -> Result<(), BoxError> {
        let index = rand::random_range(0..self.processes.len());
        self.processes[index].kill().await?;
        self.processes[index] = spawn(&self.command)?;
        self.killed += 1;
        Ok(())
    }

    /// Replaces the processes that have ended.
    ///
    /// # Errors
    ///
    /// An error when no other can be started, or too many have ended: then something else is wrong.
    pub fn replace_the_dead(&mut self) -> Result<(), BoxError> {
        for process in &mut self.processes {
            if let Some(status) = process.try_wait()? {
                self.died += 1;
                if self.died > 200 {
                    return Err(format!("processes end again and again: {status}").into());
                }
                *process = spawn(&self.command)?;
            }
        }
        Ok(())
    }

    /// Ends all processes.
    pub async fn dismiss(mut self) {
        for process in &mut self.processes {
            let _ = process.kill().await;
        }
    }
}

/// Starts a process that can end when its pipe does, however this program ends.
fn spawn(command: impl Fn() -> Result<Command, BoxError>) -> Result<Child, BoxError> {
    Ok(command()?.stdin(Stdio::piped()).spawn()?)
}
