//! A duplicate of a completed key, beside a read by primary key.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

fn replay(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let backends = runtime
        .block_on(idem_benches::backends())
        .expect("backends");
    let mut group = criterion.benchmark_group("replay");
    group.throughput(Throughput::Elements(1));
    for backend in &backends {
        let claim = runtime.block_on(backend.claim_fresh()).expect("a claim");
        runtime
            .block_on(backend.complete(&claim))
            .expect("a completion");
        group.bench_function(BenchmarkId::new("idem", backend.name), |bencher| {
            bencher.to_async(&runtime).iter(async || {
                let request = backend.request(claim.key().id());
                backend.store.claim(&request).await.expect("a replay")
            });
        });
        if let Some(bare) = &backend.bare {
            let id = claim.key().id();
            runtime
                .block_on(bare.insert(id.to_owned()))
                .expect("an insert");
            group.bench_function(BenchmarkId::new("bare", backend.name), |bencher| {
                bencher.to_async(&runtime).iter(async || {
                    bare.select(id.to_owned()).await.expect("a row");
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, replay);
criterion_main!(benches);
