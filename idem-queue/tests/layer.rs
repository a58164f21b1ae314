//! The consumer as a tower layer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use idem_core::{BoxError, Idempotency, Key, MemoryStore};
use idem_queue::{
    Consumer, Disposition, JobLayer, Message, NotDone, Reason, WorkError, current_work,
};
use tower::{Layer, Service, ServiceExt, service_fn};

/// Its name and how often it was tried.
type Job = (&'static str, u64);

fn layer() -> JobLayer<Job> {
    let consumer = Consumer::new(Idempotency::new(MemoryStore::new())).with_max_deliveries(3);
    JobLayer::new(consumer, |(name, tries): &Job| {
        let key = Key::new("shop", "mail", *name)?;
        Ok(Message::new(key, name).with_deliveries(*tries))
    })
}

fn reason(error: &BoxError) -> &Reason {
    error.downcast_ref::<NotDone>().expect("not done").reason()
}

#[tokio::test]
async fn a_duplicate_gets_the_value_and_runs_nothing() {
    let runs = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&runs);
    let mut service = layer().layer(service_fn(move |(name, _): Job| {
        let runs = Arc::clone(&seen);
        async move {
            let work = current_work().expect("it is in a job");
            assert_eq!(work.key().id(), name);
            runs.fetch_add(1, Ordering::SeqCst);
            Ok::<_, WorkError>(name.to_uppercase())
        }
    }));
    for _ in 0..3 {
        let value = service.ready().await.unwrap().call(("a", 1)).await;
        assert_eq!(value.unwrap(), "A");
    }
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert!(current_work().is_none());
}

#[tokio::test]
async fn jobs_at_once_run_once() {
    let service = layer().layer(service_fn(|_: Job| async {
        tokio::time::sleep(Duration::from_millis(30)).await;
        Ok::<_, WorkError>(())
    }));
    let (one, two) = tokio::join!(service.clone().oneshot(("a", 1)), service.oneshot(("a", 1)));
    let errors: Vec<_> = [one, two].into_iter().filter_map(Result::err).collect();
    assert_eq!(errors.len(), 1);
    assert!(matches!(reason(&errors[0]), Reason::InFlight), "{errors:?}");
}

#[tokio::test]
async fn errors_are_the_ones_that_the_queue_understands() {
    let layer = layer().with_error(|not_done| match not_done.disposition() {
        Disposition::Requeue { .. } => "retry".into(),
        _ => "abort".into(),
    });
    let service = layer.layer(service_fn(|(name, _): Job| async move {
        let error = std::io::Error::other("away");
        Err::<(), _>(match name {
            "broken" => WorkError::permanent(error),
            _ => WorkError::temporary(error),
        })
    }));
    for (job, expected) in [
        (("flaky", 1), "retry"),
        (("flaky", 2), "retry"),
        (("flaky", 3), "abort"),
        (("broken", 1), "abort"),
        (("", 1), "abort"),
    ] {
        let error = service.clone().oneshot(job).await.unwrap_err();
        assert_eq!(error.to_string(), expected, "{job:?}");
    }
}

#[tokio::test]
async fn an_error_of_another_kind_is_temporary() {
    let service = layer().layer(service_fn(|_: Job| async {
        Err::<(), _>(std::io::Error::other("away"))
    }));
    let error = service.oneshot(("a", 1)).await.unwrap_err();
    assert!(matches!(reason(&error), Reason::Temporary(_)), "{error:?}");
}
