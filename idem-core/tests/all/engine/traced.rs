//! What `TracingObserver` shows.

use std::fmt::Write as _;
use std::io;
use std::sync::{Arc, Mutex};

use idem_core::engine::observe::TracingObserver;
use idem_core::{Idempotency, Key, Work};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use super::support::{Effects, Fault, Scripted, calm, counted, until};

/// A line for each span, record and event, with the spans that it is in.
#[derive(Debug, Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    fn add(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// The only line with all these words.
    fn one(&self, words: &[&str]) -> String {
        let mut all = self.all();
        all.retain(|line| words.iter().all(|word| line.contains(word)));
        assert_eq!(all.len(), 1, "{words:?} {:?}", self.all());
        all.remove(0)
    }
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Lines {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        let mut fields = Fields(format!("span {}", attributes.metadata().name()));
        attributes.record(&mut fields);
        self.add(fields.0);
    }

    fn on_record(&self, _: &Id, values: &Record<'_>, _: Context<'_, S>) {
        let mut fields = Fields("record".to_owned());
        values.record(&mut fields);
        self.add(fields.0);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut within: Vec<_> = context.event_scope(event).into_iter().flatten().collect();
        let within = within.pop().map_or("nothing", |span| span.name());
        let mut fields = Fields(format!("event in {within} {}", event.metadata().level()));
        event.record(&mut fields);
        self.add(fields.0);
    }
}

fn secret() -> Key {
    Key::new("scope-of-acme", "payments.create", "id-of-request").unwrap()
}

/// Returns the log of runs of all kinds on a runtime of one thread.
fn shown(observer: TracingObserver, act: impl AsyncFnOnce(&Scripted, &Idempotency)) -> Lines {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::registry().with(lines.clone());
    // With one subscriber alone, a line that another test reaches first stays off for all.
    let _other = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::new());
    tracing::subscriber::with_default(subscriber, || {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_time().start_paused(true).build();
        let store = Scripted::new();
        let idem = Idempotency::new(store.clone())
            .with_policy(calm())
            .with_observer(observer);
        runtime.unwrap().block_on(act(&store, &idem));
    });
    lines
}

/// A fresh run with faults, a replay, a conflict, a lost lease.
async fn all_kinds(store: &Scripted, idem: &Idempotency) {
    store.next("claim", &[Fault::LostAnswer]);
    let work = async |_: Work| {
        tracing::info!("the work is done");
        Ok::<_, io::Error>(1)
    };
    idem.run(&secret(), &1, work).await.unwrap();
    idem.run(&secret(), &1, work).await.unwrap();
    idem.run(&secret(), &2, work).await.unwrap_err();
    store.always("renew", Fault::Down);
    let other = Key::new("scope-of-acme", "payments.refund", "id-of-request").unwrap();
    let lost = async |work: Work| {
        work.lost().await;
        Err::<(), _>(io::Error::other("error-of-work"))
    };
    idem.run(&other, &1, lost).await.unwrap_err();
}

#[test]
fn neither_scope_nor_id_nor_what_the_work_says_is_shown() {
    let lines = shown(TracingObserver::new(), all_kinds);
    let hash = &secret().hashed()[..12];
    for line in lines.all() {
        for word in ["acme", "id-of", "error-of-work"] {
            assert!(!line.contains(word), "{line}");
        }
    }
    assert!(lines.all().iter().any(|line| line.contains(hash)));
}

#[test]
fn keys_are_shown_if_requested() {
    let lines = shown(TracingObserver::new().with_plain_keys(), all_kinds);
    let path = "scope-of-acme:payments.create:id-of-request";
    assert!(lines.all().iter().any(|line| line.contains(path)));
}

#[test]
fn a_run_is_a_span_that_encloses_its_work_and_records_its_decision_and_ending() {
    let observer = TracingObserver::new().with_scope_class(|_| "paying");
    let lines = shown(observer, async |_, idem| {
        let work = async |_: Work| {
            tracing::info!("the work is done");
            Ok::<_, io::Error>(1)
        };
        idem.run(&secret(), &1, work).await.unwrap();
    });
    lines.one(&["span idem.run", "operation=\"payments.create\""]);
    lines.one(&["record", "scope_class=\"paying\""]);
    lines.one(&["record", "decision=\"new\""]);
    lines.one(&["record", "ending=\"sealed\""]);
    lines.one(&["event in idem.run INFO", "the work is done"]);
    lines.one(&[
        "event in idem.run DEBUG",
        "decision=\"new\"",
        "operation=\"payments.create\"",
    ]);
    lines.one(&["event in idem.run DEBUG", "ending=\"sealed\"", "seconds="]);
}

#[test]
fn an_event_that_needs_attention_is_a_warning() {
    let lines = shown(TracingObserver::new(), all_kinds);
    lines.one(&["event in idem.run WARN", "decision=\"conflict\""]);
    lines.one(&["event in idem.run WARN", "lease lost", "cause=\"expired\""]);
    lines.one(&[
        "event in idem.run DEBUG",
        "call=\"claim\"",
        "kind=\"unavailable\"",
    ]);
    let lines = shown(TracingObserver::new(), async |store, idem| {
        store.always("complete", Fault::Broken);
        let work = |_: Work| counted(Effects::default());
        idem.run(&secret(), &1, work).await.unwrap_err();
    });
    lines.one(&["WARN", "ending=\"unsettled\"", "error=\"misconfigured\""]);
}

#[test]
fn the_work_after_the_run_was_dropped_is_in_its_span() {
    let lines = shown(TracingObserver::new(), async |store, idem| {
        let idem = idem.clone();
        let run = tokio::spawn(async move {
            let work = async |_: Work| std::future::pending::<io::Result<()>>().await;
            idem.run(&secret(), &1, work).await
        });
        until("claimed", || store.calls("claim") == 1).await;
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        run.abort();
        until("released", || store.calls("release") == 1).await;
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    });
    lines.one(&["event in idem.run DEBUG", "ending=\"released\""]);
}

#[test]
fn without_a_tracing_observer_there_is_no_span() {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::registry().with(lines.clone());
    tracing::subscriber::with_default(subscriber, || {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_time().build().unwrap();
        let idem = Idempotency::new(Scripted::new());
        let work = |_: Work| counted(Effects::default());
        runtime.block_on(idem.run(&secret(), &1, work)).unwrap();
    });
    assert!(lines.all().is_empty(), "{lines:?}");
}
