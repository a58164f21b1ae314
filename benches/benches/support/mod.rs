//! What the benchmarks have in common.

use std::time::Duration;

use criterion::{Criterion, SamplingMode, Throughput};
use idem_benches::{Counted, Plan, Subject, backends};
use idem_core::BoxError;
use tokio::runtime::Runtime;

/// Criterion, a runtime, and what is asked for.
pub(crate) struct Suite {
    criterion: Criterion,
    runtime: Runtime,
}

impl Suite {
    fn new(quick: bool) -> Result<Self, BoxError> {
        let millis = |full, less| Duration::from_millis(if quick { less } else { full });
        let criterion = Criterion::default()
            .sample_size(10)
            .nresamples(1000)
            .warm_up_time(millis(100, 40))
            .measurement_time(millis(400, 100));
        Ok(Self {
            criterion: criterion.configure_from_args(),
            runtime: Runtime::new()?,
        })
    }

    /// The backends that `IDEM_BENCH_BACKENDS` names with commas between, or all, of which the servers are there.
    pub(crate) fn subjects(&self) -> Vec<Subject> {
        let named = std::env::var("IDEM_BENCH_BACKENDS");
        let wanted = |name: &&str| match &named {
            Ok(named) => named.split(',').any(|one| one == *name),
            Err(_) => true,
        };
        let all = backends::NAMES.into_iter();
        all.filter(wanted).filter_map(backends::subject).collect()
    }

    /// What the future gives.
    pub(crate) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Measures contenders side by side, as `claim_fresh/postgres/64`.
    pub(crate) fn bench(
        &mut self,
        (path, backend, callers): (&str, &str, usize),
        contenders: &[Box<dyn Counted>],
    ) {
        let name = format!("{path}/{backend}/{callers}");
        let mut group = self.criterion.benchmark_group(name);
        group.sampling_mode(SamplingMode::Flat);
        group.throughput(Throughput::Elements(1));
        for contender in contenders {
            group.bench_function(contender.name(), |bencher| {
                bencher.iter_custom(|count| {
                    let round = self.runtime.block_on(contender.count(callers, count));
                    round.expect("a round without errors").elapsed
                });
            });
        }
        group.finish();
    }
}

/// What a file measures.
type Benches = fn(&mut Suite, Plan) -> Result<(), BoxError>;

/// Runs one file's benchmarks, fewer of them where `IDEM_BENCH_QUICK` is set. One that fails fails the program.
pub(crate) fn main(benches: Benches) -> Result<(), BoxError> {
    let quick = std::env::var_os("IDEM_BENCH_QUICK").is_some();
    let plan = if quick { Plan::quick() } else { Plan::full() };
    let mut suite = Suite::new(quick)?;
    benches(&mut suite, plan)?;
    suite.criterion.final_summary();
    Ok(())
}
