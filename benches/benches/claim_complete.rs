//! The whole life of a key, beside an insert and an update.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

fn claim_complete(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let backends = runtime
        .block_on(idem_benches::backends())
        .expect("backends");
    let mut group = criterion.benchmark_group("claim_complete");
    group.throughput(Throughput::Elements(1));
    for backend in &backends {
        group.bench_function(BenchmarkId::new("idem", backend.name), |bencher| {
            bencher.to_async(&runtime).iter(async || {
                let claim = backend.claim_fresh().await.expect("a claim");
                backend.complete(&claim).await.expect("a completion");
            });
        });
        if let Some(bare) = &backend.bare {
            group.bench_function(BenchmarkId::new("bare", backend.name), |bencher| {
                bencher.to_async(&runtime).iter(async || {
                    let id = backend.fresh_id();
                    bare.insert(id.clone()).await.expect("an insert");
                    bare.update(id).await.expect("an update");
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, claim_complete);
criterion_main!(benches);
