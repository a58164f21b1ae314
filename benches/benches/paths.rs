//! Criterion's pages of the paths: `cargo bench -p idem-benches --bench paths -- replay`.
//!
//! `IDEM_BENCH_BACKENDS` names the backends, separated by commas. Default: all that are compiled in
//! and whose servers are available.

use std::cell::RefCell;
use std::time::Duration;

use async_trait::async_trait;
use criterion::{Criterion, SamplingMode, Throughput};
use idem_benches::{Length, Meter, PATHS, Plan, Scene, backends, visit};
use idem_core::BoxError;
use tokio::runtime::Handle;
use tokio::task::block_in_place;

thread_local! {
    /// Criterion cannot be sent to other threads, and the visit stays on the main one.
    static CRITERION: RefCell<Criterion> = RefCell::new(
        Criterion::default()
            .sample_size(10)
            .nresamples(1000)
            .warm_up_time(Duration::from_millis(100))
            .measurement_time(Duration::from_millis(400))
            .configure_from_args(),
    );
}

/// The meter that draws pages.
struct Pages;

#[async_trait]
impl Meter for Pages {
    async fn measure(&mut self, scene: Scene) -> Result<(), BoxError> {
        block_in_place(|| CRITERION.with_borrow_mut(|criterion| measure(criterion, &scene)));
        Ok(())
    }
}

/// Measures contenders side by side, as `claim_fresh/postgres/64`.
fn measure(criterion: &mut Criterion, scene: &Scene) {
    for &callers in scene.callers {
        let name = format!("{}/{}/{callers}", scene.path, scene.backend);
        let mut group = criterion.benchmark_group(name);
        group.sampling_mode(SamplingMode::Flat);
        group.throughput(Throughput::Elements(1));
        for contender in &scene.contenders {
            group.bench_function(contender.name(), |bencher| {
                bencher.iter_custom(|count| {
                    let round = contender.round(callers, Length::Operations(count));
                    let round = Handle::current().block_on(round);
                    round.expect("a round without errors").elapsed
                });
            });
        }
        group.finish();
    }
}

/// Visits the paths that the arguments name, or all.
#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let backends = std::env::var("IDEM_BENCH_BACKENDS").ok();
    let backends = backends.as_deref().map(|names| names.split(',').collect());
    let backends: Vec<&str> = backends.unwrap_or_else(|| backends::names().into());
    let named: Vec<_> = std::env::args().collect();
    let is_named = |path: &&str| named.iter().any(|name| name == path);
    let has_named = PATHS.iter().any(is_named);
    for backend in backends.into_iter().filter_map(backends::backend) {
        let paths = PATHS.into_iter();
        for path in paths.filter(|path| !has_named || is_named(path)) {
            visit(path, &backend, &Plan::quick(), &mut Pages).await?;
        }
    }
    CRITERION.with_borrow(Criterion::final_summary);
    Ok(())
}
