//! Criterion's pages of the paths: `cargo bench -p idem-benches --bench paths -- replay`.
//!
//! `IDEM_BENCH_BACKENDS` names the backends, separated by commas. Default: all whose servers are
//! available.

use std::sync::mpsc;
use std::time::Duration;

use async_trait::async_trait;
use criterion::{Criterion, SamplingMode, Throughput};
use idem_benches::{Length, Meter, PATHS, Plan, Scene, backends, visit};
use idem_core::BoxError;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

/// Sends each scene to the main thread, which criterion does not leave, and waits for it.
struct Scenes(mpsc::Sender<(Scene, oneshot::Sender<()>)>);

#[async_trait]
impl Meter for Scenes {
    async fn measure(&mut self, scene: Scene) -> Result<(), BoxError> {
        let (done, is_done) = oneshot::channel();
        let sent = self.0.send((scene, done));
        sent.map_err(|_| "criterion has stopped")?;
        Ok(is_done.await?)
    }
}

/// Visits the paths that the arguments name, or all.
async fn visit_all(mut scenes: Scenes) -> Result<(), BoxError> {
    let backends = std::env::var("IDEM_BENCH_BACKENDS").ok();
    let backends = backends.as_deref().map(|names| names.split(',').collect());
    let backends: Vec<&str> = backends.unwrap_or_else(|| backends::NAMES.into());
    let named: Vec<_> = std::env::args().collect();
    let is_named = |path: &&str| named.iter().any(|name| name == path);
    let has_named = PATHS.iter().any(is_named);
    for backend in backends.into_iter().filter_map(backends::backend) {
        for path in PATHS
            .into_iter()
            .filter(|path| !has_named || is_named(path))
        {
            visit(path, &backend, &Plan::quick(), &mut scenes).await?;
        }
    }
    Ok(())
}

/// Measures contenders side by side, as `claim_fresh/postgres/64`.
fn measure(criterion: &mut Criterion, runtime: &Runtime, scene: &Scene) {
    for &callers in scene.callers() {
        let name = format!("{}/{}/{callers}", scene.path(), scene.backend());
        let mut group = criterion.benchmark_group(name);
        group.sampling_mode(SamplingMode::Flat);
        group.throughput(Throughput::Elements(1));
        for contender in scene.contenders() {
            group.bench_function(contender.name(), |bencher| {
                bencher.iter_custom(|count| {
                    let round = contender.round(callers, Length::Operations(count));
                    let round = runtime.block_on(round);
                    round.expect("a round without errors").elapsed
                });
            });
        }
        group.finish();
    }
}

fn main() -> Result<(), BoxError> {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .nresamples(1000)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(400))
        .configure_from_args();
    let runtime = Runtime::new()?;
    let (sender, scenes) = mpsc::channel();
    let handle = runtime.handle().clone();
    let visiting = std::thread::spawn(move || handle.block_on(visit_all(Scenes(sender))));
    for (scene, done) in scenes {
        measure(&mut criterion, &runtime, &scene);
        // The visitor removes the namespaces, so its connections go first.
        drop(scene);
        let _ = done.send(());
    }
    visiting.join().map_err(|_| "the visitor panicked")??;
    criterion.final_summary();
    Ok(())
}
