//! [`Crew`]: the consumer processes.

use std::process::Stdio;

use idem_core::BoxError;
use rand::RngExt;
use rand::rngs::StdRng;
use tokio::process::{Child, Command};

/// Processes of this program that consume; a process that ends is replaced.
#[derive(Debug)]
pub struct Crew {
    arguments: Vec<String>,
    consumers: Vec<Child>,
    /// How many this program has killed.
    pub killed: u64,
    /// How many ended by themselves.
    pub died: u64,
}

impl Crew {
    /// Starts `size` processes of this program, with these arguments.
    ///
    /// # Errors
    ///
    /// An error when a process cannot be started.
    pub fn start(size: usize, arguments: Vec<String>) -> Result<Self, BoxError> {
        let mut crew = Self {
            arguments,
            consumers: Vec::new(),
            killed: 0,
            died: 0,
        };
        for _ in 0..size.max(1) {
            let consumer = crew.hire()?;
            crew.consumers.push(consumer);
        }
        Ok(crew)
    }

    fn hire(&self) -> Result<Child, BoxError> {
        let program = std::env::current_exe()?;
        let mut command = Command::new(program);
        // The process ends when this pipe does, however this program ends.
        command.args(&self.arguments).stdin(Stdio::piped());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Ok(command.kill_on_drop(true).spawn()?)
    }

    /// Kills one of them at any point of its work (SIGKILL), and starts another.
    ///
    /// # Errors
    ///
    /// An error when it cannot be killed, or no other can be started.
    pub async fn kill_one(&mut self, rng: &mut StdRng) -> Result<(), BoxError> {
        let index = rng.random_range(0..self.consumers.len());
        self.consumers[index].kill().await?;
        self.consumers[index] = self.hire()?;
        self.killed += 1;
        Ok(())
    }

    /// Replaces the processes that have ended.
    ///
    /// # Errors
    ///
    /// An error when no other can be started, or too many have ended: then something else is wrong.
    pub fn replace_the_dead(&mut self) -> Result<(), BoxError> {
        for index in 0..self.consumers.len() {
            if self.consumers[index].try_wait()?.is_some() {
                self.consumers[index] = self.hire()?;
                self.died += 1;
            }
        }
        if self.died > 200 {
            return Err("the consumers end again and again".into());
        }
        Ok(())
    }

    /// Ends all processes.
    pub async fn dismiss(&mut self) {
        for consumer in &mut self.consumers {
            let _ = consumer.kill().await;
        }
    }
}
