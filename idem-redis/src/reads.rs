//! [`Reads`]: values and the clock, by plain commands.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use idem_core::backend::Batcher;
use idem_core::{Error, Result};
use redis::{Pipeline, Value};

use crate::error::{Access, is_elsewhere, routes_one_key};
use crate::link::{Link, Progress};
use crate::operations::{items, nonsense};

/// Most keys of one read: a server does nothing else meanwhile, and a script of this many keys
/// takes it less than a millisecond.
pub(crate) const MAX_BATCH_SIZE: usize = 128;

/// The result of a read: the server's clock, no later than the values, and a value for each key,
/// `Nil` where there is none.
pub(crate) type Read = (i64, Vec<Value>);

type Answer = Result<Option<Read>>;

/// Batches the reads of many callers, each of a key or two of one slot.
#[derive(Debug)]
pub(crate) struct Reads {
    link: Arc<Link>,
    gather: Arc<Batcher<Vec<String>, Answer>>,
    is_split: Arc<AtomicBool>,
}

impl Reads {
    pub(crate) fn new(link: Arc<Link>, batching: bool) -> Self {
        let is_split = Arc::new(AtomicBool::new(!batching));
        let (at, split) = (Arc::clone(&link), Arc::clone(&is_split));
        Self {
            gather: Batcher::new(MAX_BATCH_SIZE, usize::MAX, move |asked| {
                read_all(Arc::clone(&at), Arc::clone(&split), asked)
            }),
            link,
            is_split,
        }
    }

    /// Returns the values of these keys, read together with those of concurrent callers; `None`
    /// where only a script may answer: in a cluster, and while the server is being replaced.
    pub(crate) async fn read(&self, keys: impl Fn() -> Vec<String> + Send + Sync) -> Answer {
        if !self.link.connector.is_one_node() {
            return Ok(None);
        }
        let underway = self.gather.enter();
        let are_gathered = underway.is_in_company() && !self.is_split.load(Ordering::Relaxed);
        if are_gathered && let Some(answer) = self.gather.ask(keys()).await {
            return answer;
        }
        self.link.read(&keys()).await
    }
}

/// Returns an answer for each caller.
async fn read_all(
    link: Arc<Link>,
    is_split: Arc<AtomicBool>,
    asked: Vec<Vec<String>>,
) -> Vec<Answer> {
    let counts: Vec<_> = asked.iter().map(Vec::len).collect();
    let keys: Vec<_> = asked.into_iter().flatten().collect();
    match link.read(&keys).await {
        Ok(Some((now, values))) => {
            let mut values = values.into_iter();
            let mut take = |count| Ok(Some((now, values.by_ref().take(count).collect())));
            counts.into_iter().map(&mut take).collect()
        }
        Ok(None) => counts.iter().map(|_| Ok(None)).collect(),
        Err(error) if routes_one_key(&error) => {
            is_split.store(true, Ordering::Relaxed);
            counts.iter().map(|_| Ok(None)).collect()
        }
        Err(error) => {
            let each = error.for_each_item();
            counts.iter().map(|_| Err(each())).collect()
        }
    }
}

impl Link {
    /// Reads the clock and then the values, in one round trip; `None` when the server says that
    /// another one has them.
    ///
    /// Other commands may run between the two, so the values are no older than the clock. They hold
    /// for an instant, from there on, at which the caller was waiting: for the clock's own, or,
    /// when the value was written after it, for that of the write.
    pub(crate) async fn read(&self, keys: &[String]) -> Answer {
        let progress = Progress::default();
        let asked = async {
            let mut live = self.live().await?;
            progress.sent_on(&live);
            let mut pipeline = Pipeline::with_capacity(2);
            pipeline.cmd("TIME").cmd("MGET");
            for key in keys {
                pipeline.arg(key);
            }
            let answered = live.connection.commands(&pipeline).await;
            let returned = answered.and_then(|answers| {
                let returned = answers.into_iter().map(Value::extract_error);
                returned.collect::<Result<Vec<_>, _>>()
            });
            match returned {
                Ok(answers) => understood(answers, keys.len()).map(Some),
                Err(error) => {
                    let is_elsewhere = is_elsewhere(&error);
                    let error = self.failed(error, &live, Access::Read);
                    if is_elsewhere { Ok(None) } else { Err(error) }
                }
            }
        };
        self.in_time(self.deadline(), &progress, Access::Read, asked)
            .await
    }
}

fn understood(answers: Vec<Value>, count: usize) -> Result<Read> {
    let [time, values] = <[Value; 2]>::try_from(answers).map_err(|_| nonsense())?;
    let values = items(values)?;
    if values.len() != count {
        return Err(nonsense());
    }
    Ok((instant(time)?, values))
}

/// Converts the answer of `TIME` to microseconds since 1970.
fn instant(time: Value) -> Result<i64, Error> {
    let [seconds, micros]: [i64; 2] = redis::from_redis_value(time).map_err(|_| nonsense())?;
    Ok(seconds.saturating_mul(1_000_000).saturating_add(micros))
}
