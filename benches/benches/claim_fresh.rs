//! A claim of a fresh key, beside a plain insert.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

fn claim_fresh(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let backends = runtime
        .block_on(idem_benches::backends())
        .expect("backends");
    let mut group = criterion.benchmark_group("claim_fresh");
    group.throughput(Throughput::Elements(1));
    for backend in &backends {
        group.bench_function(BenchmarkId::new("idem", backend.name), |bencher| {
            bencher
                .to_async(&runtime)
                .iter(async || backend.claim_fresh().await.expect("a claim"));
        });
        if let Some(bare) = &backend.bare {
            group.bench_function(BenchmarkId::new("bare", backend.name), |bencher| {
                bencher.to_async(&runtime).iter(async || {
                    bare.insert(backend.fresh_id()).await.expect("an insert");
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, claim_fresh);
criterion_main!(benches);
