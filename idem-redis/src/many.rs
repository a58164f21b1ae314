//! [`ManyRecords`]: one script for many records.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::join_all;
use idem_core::Result;
use redis::Value;

use crate::error::{Access, routes_one_key};
use crate::link::Link;
use crate::operations::{Operations, items, nonsense};
use crate::script::Call;

/// Most bytes of arguments of one script, beside the keys.
const MAX_SCRIPT_BYTES: usize = 1 << 20;

/// Most records of one script.
const MAX_SCRIPT_ITEMS: usize = 128;

/// An operation on one record that a script does for many records.
pub(crate) trait Item: Send + Sync {
    /// The common arguments of the items of one script.
    type Terms: Copy + PartialEq + Send;

    fn key(&self) -> &str;

    fn terms(&self) -> Self::Terms;

    /// Returns the bytes of its own arguments.
    fn bytes(&self) -> usize;

    /// Begins the call for the records of these keys, with the common arguments.
    fn call<'s>(operations: &'s Operations, keys: &[&str], terms: Self::Terms) -> Call<'s>;

    /// Adds its own arguments.
    fn add<'s>(&self, call: Call<'s>) -> Call<'s>;
}

/// The server's clock when the item was written; `None` when it was not, because the record does
/// not allow it or for another reason. The item then has to be sent by itself, which decides.
pub(crate) type Written = Result<Option<i64>>;

/// Sends items of many records by a script each time, as long as the server takes such scripts.
#[derive(Debug, Clone)]
pub(crate) struct ManyRecords {
    link: Arc<Link>,
    operations: Arc<Operations>,
    /// Whether each item has to have a script of its own.
    is_split: Arc<AtomicBool>,
}

impl ManyRecords {
    pub(crate) fn new(link: &Arc<Link>, operations: &Arc<Operations>) -> Self {
        // A caller whose write was not replicated must get that error, and no other caller: then
        // each item has a script of its own.
        let config = &operations.config;
        let alone =
            !config.batching() || !link.connector.is_one_node() || config.replicas().is_some();
        Self {
            link: Arc::clone(link),
            operations: Arc::clone(operations),
            is_split: Arc::new(AtomicBool::new(alone)),
        }
    }

    /// Returns whether each item has to have a script of its own.
    pub(crate) fn is_split(&self) -> bool {
        self.is_split.load(Ordering::Relaxed)
    }

    /// Returns an answer for each item. Of items with the same key, any may come first.
    pub(crate) async fn write<I: Item>(self, items: Vec<I>) -> Vec<Written> {
        let mut answers: Vec<_> = items.iter().map(|_| Ok(None)).collect();
        if self.is_split() {
            return answers;
        }
        let scripts = scripts(&items);
        let runs = scripts.iter().map(|indexes| self.run(&items, indexes));
        for (indexes, written) in scripts.iter().zip(join_all(runs).await) {
            for (&index, answer) in indexes.iter().zip(written) {
                answers[index] = answer;
            }
        }
        answers
    }

    async fn run<I: Item>(&self, items: &[I], indexes: &[usize]) -> Vec<Written> {
        let Some(terms) = indexes.first().map(|&first| items[first].terms()) else {
            return Vec::new();
        };
        let keys: Vec<_> = indexes.iter().map(|&at| items[at].key()).collect();
        let call = I::call(&self.operations, &keys, terms);
        let call = indexes.iter().fold(call, |call, &at| items[at].add(call));
        let answered = self.link.run(&call, Access::Write, has_written).await;
        match answered.and_then(|answer| written(answer, indexes.len())) {
            Ok(answers) => answers.into_iter().map(Ok).collect(),
            Err(error) if routes_one_key(&error) => {
                self.is_split.store(true, Ordering::Relaxed);
                indexes.iter().map(|_| Ok(None)).collect()
            }
            Err(error) => {
                let each = error.for_each_item();
                indexes.iter().map(|_| Err(each())).collect()
            }
        }
    }
}

/// Groups the items into scripts: those with the same terms.
fn scripts<I: Item>(items: &[I]) -> Vec<Vec<usize>> {
    let mut scripts: Vec<(I::Terms, usize, Vec<usize>)> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let bytes = item.bytes();
        let room = scripts.iter_mut().find(|(terms, taken, indexes)| {
            *terms == item.terms()
                && *taken + bytes <= MAX_SCRIPT_BYTES
                && indexes.len() < MAX_SCRIPT_ITEMS
        });
        match room {
            Some((_, taken, indexes)) => {
                *taken += bytes;
                indexes.push(index);
            }
            None => scripts.push((item.terms(), bytes, vec![index])),
        }
    }
    scripts.into_iter().map(|(.., indexes)| indexes).collect()
}

/// Returns whether any of them was written.
fn has_written(answer: &Value) -> bool {
    matches!(answer, Value::Array(items) if items.iter().skip(1).any(|item| *item == Value::Int(1)))
}

fn written(answer: Value, count: usize) -> Result<Vec<Option<i64>>> {
    let answer = items(answer)?;
    let Some((&Value::Int(now), each)) = answer.split_first() else {
        return Err(nonsense());
    };
    if each.len() != count {
        return Err(nonsense());
    }
    Ok(each
        .iter()
        .map(|one| (*one == Value::Int(1)).then_some(now))
        .collect())
}
