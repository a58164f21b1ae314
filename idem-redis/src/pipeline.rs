//! Many scripts in one round trip.

use futures_util::future::join_all;
use idem_core::{Error, Result};
use redis::{Pipeline, Value};
use tokio::time::Instant;

use crate::clock::too_late;
use crate::error::{Access, classify, code_of, is_elsewhere};
use crate::link::{Link, Progress};
use crate::script::Call;

/// Most calls in one pipeline.
const PIPELINE_CALLS: usize = 512;
const PIPELINE_BYTES: usize = 16 << 20;

impl Link {
    /// Runs scripts that are all written before the first answer is awaited; returns an answer for
    /// each.
    pub(crate) async fn run_all(
        &self,
        calls: &[Call<'_>],
        sent: Access,
        wrote: fn(&Value) -> bool,
    ) -> Vec<Result<Value>> {
        let mut answers = Vec::with_capacity(calls.len());
        let mut rest = calls;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(one_pipeline(rest));
            answers.extend(self.run_some(now, sent, wrote).await);
            rest = later;
        }
        answers
    }

    async fn run_some(
        &self,
        calls: &[Call<'_>],
        sent: Access,
        wrote: fn(&Value) -> bool,
    ) -> Vec<Result<Value>> {
        if !self.connector.is_one_node() {
            return join_all(calls.iter().map(|call| self.run(call, sent, wrote))).await;
        }
        let progress = Progress::default();
        let deadline = self.deadline();
        let asked = self.ask_all(deadline, calls, sent, wrote, &progress);
        let in_time = self.in_time(deadline, &progress, sent, asked).await;
        let (answers, replicated) = match in_time {
            Ok(answered) => answered,
            Err(error) => {
                let each = error.for_each_item();
                return calls.iter().map(|_| Err(each())).collect();
            }
        };
        let lacking = replicated.err().map(Error::for_each_item);
        let mut results = Vec::with_capacity(calls.len());
        for (call, answer) in calls.iter().zip(answers) {
            results.push(match (answer.extract_error(), &lacking) {
                (Ok(value), Some(lacking)) if wrote(&value) => Err(lacking()),
                // Sends it again with the server's clock, if there is time left.
                (Ok(value), _) if call.is_dated() && too_late(&value).is_some() => {
                    self.run_until(deadline, call, sent, wrote).await
                }
                (Ok(value), _) => Ok(value),
                // Not known to this server yet, or to be sent to another one.
                (Err(error), _) if code_of(&error) == "NOSCRIPT" || is_elsewhere(&error) => {
                    self.run(call, sent, wrote).await
                }
                (Err(error), _) => Err(classify(error, sent)),
            });
        }
        results
    }

    /// Returns all answers, and whether replicas have the writes.
    async fn ask_all(
        &self,
        deadline: Instant,
        calls: &[Call<'_>],
        sent: Access,
        wrote: fn(&Value) -> bool,
        progress: &Progress,
    ) -> Result<(Vec<Value>, Result<()>)> {
        let mut live = self.live().await?;
        progress.sent_on(&live);
        let mut pipeline = Pipeline::with_capacity(calls.len());
        let until = self.clock.at(deadline);
        for call in calls {
            pipeline.add_command(call.until(until).by_hash().clone());
        }
        let answers = live.connection.commands(&pipeline).await;
        let answers = answers.map_err(|error| self.failed(error, &live, sent))?;
        let replicated = if answers.iter().any(wrote) {
            self.replicated(&live, None).await
        } else {
            Ok(())
        };
        Ok((answers, replicated))
    }
}

/// Returns how many of these calls go into one pipeline.
fn one_pipeline(calls: &[Call<'_>]) -> usize {
    let mut bytes = 0;
    let fits = |call: &&Call<'_>| {
        bytes += call.bytes();
        bytes <= PIPELINE_BYTES
    };
    calls
        .iter()
        .take(PIPELINE_CALLS)
        .take_while(fits)
        .count()
        .max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Script;

    #[test]
    fn a_pipeline_is_bounded_in_calls_and_bytes() {
        let script = Script::new("return 1");
        let small = script.call("key");
        let large = script.call("key").arg(vec![0_u8; PIPELINE_BYTES / 2]);
        let huge = script.call("key").arg(vec![0_u8; PIPELINE_BYTES + 1]);
        assert_eq!(one_pipeline(&vec![small.clone(); 600]), PIPELINE_CALLS);
        assert_eq!(one_pipeline(&[small.clone(), large.clone(), large]), 2);
        assert_eq!(one_pipeline(&[huge, small]), 1);
    }
}
