//! A client whose commands and connections are watched.

use std::sync::{Arc, Mutex, PoisonError};

use idem_core::BoxError;
use idem_mongo::mongodb::Client;
use idem_mongo::mongodb::bson::Document;
use idem_mongo::mongodb::event::EventHandler;
use idem_mongo::mongodb::event::cmap::{CmapEvent, ConnectionClosedReason};
use idem_mongo::mongodb::event::command::CommandEvent;
use idem_mongo::{Config, MongoStore};

use super::MongoHarness;

/// The commands that a client has sent, and the connections that it had to close.
#[derive(Clone, Default)]
pub(crate) struct Watch {
    commands: Arc<Mutex<Vec<Document>>>,
    broken: Arc<Mutex<Vec<String>>>,
}

impl Watch {
    /// Returns a watched store on a client whose own settings are as weak as possible.
    pub(crate) async fn store(
        &self,
        harness: &MongoHarness,
        config: Config,
    ) -> Result<MongoStore, BoxError> {
        let mut options = harness.options().await?;
        options.write_concern = Some(idem_mongo::mongodb::options::WriteConcern::nodes(1));
        let commands = Arc::clone(&self.commands);
        options.command_event_handler = Some(EventHandler::callback(move |event| {
            if let CommandEvent::Started(started) = event {
                lock(&commands).push(started.command);
            }
        }));
        let broken = Arc::clone(&self.broken);
        options.cmap_event_handler = Some(EventHandler::callback(move |event| {
            if let CmapEvent::ConnectionClosed(closed) = event
                && matches!(
                    closed.reason,
                    ConnectionClosedReason::Error | ConnectionClosedReason::Dropped
                )
            {
                lock(&broken).push(format!("{:?}", closed.reason));
            }
        }));
        Ok(MongoStore::with_config(
            Client::with_options(options)?,
            config,
        ))
    }

    /// Returns the commands of these names since the last call.
    pub(crate) fn take(&self, names: &[&str]) -> Vec<Document> {
        let commands = std::mem::take(&mut *lock(&self.commands));
        let wanted = |command: &Document| {
            let name = command.keys().next().map(String::as_str);
            names.is_empty() || name.is_some_and(|name| names.contains(&name))
        };
        commands.into_iter().filter(wanted).collect()
    }

    /// Returns the connections closed because of an error, or because a future was dropped.
    pub(crate) fn broken(&self) -> Vec<String> {
        lock(&self.broken).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
