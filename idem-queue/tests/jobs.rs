//! Jobs that are enqueued once per intent and window.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use idem_core::key::Target;
use idem_core::{ErrorKind, Idempotency, MemoryStore, Policy, RunError};
use idem_queue::{Enqueued, Intent, Jobs, Ran, Ticket};

/// A queue, and jobs with this window.
fn jobs(window: Duration) -> (Jobs, Arc<Mutex<Vec<Ticket>>>) {
    let idem = Idempotency::new(MemoryStore::new())
        .with_operation_policy("build", Policy::ghost_job(window));
    (Jobs::new(idem), Arc::default())
}

const MINUTE: Duration = Duration::from_secs(60);

fn build(who: &str, name: &str) -> Intent {
    Intent::new(who, Target::Name(name), "build").unwrap()
}

async fn enqueue(
    jobs: &Jobs,
    queue: &Arc<Mutex<Vec<Ticket>>>,
    intent: &Intent,
    job: &str,
) -> Enqueued {
    let push = async |ticket| {
        queue.lock().unwrap().push(ticket);
        Ok::<_, io::Error>(())
    };
    jobs.enqueue(intent, job, push).await.unwrap()
}

fn duplicate(job: &str, is_done: bool) -> Enqueued {
    let job = job.to_owned();
    Enqueued::Duplicate { job, is_done }
}

fn ticket(enqueued: Enqueued) -> Ticket {
    match enqueued {
        Enqueued::New(ticket) => ticket,
        returned => panic!("{returned:?}"),
    }
}

async fn succeeds(jobs: &Jobs, ticket: &Ticket) -> Ran<u32> {
    let run = jobs.run(ticket, async |_| Ok::<_, io::Error>(7));
    run.await.unwrap()
}

#[tokio::test]
async fn a_second_click_returns_the_first_ones_job() {
    let (jobs, queue) = jobs(MINUTE);
    let intent = build("user-7", "My  Project ");
    let first = ticket(enqueue(&jobs, &queue, &intent, "41").await);
    let again = build("user-7", "my project");
    assert_eq!(
        enqueue(&jobs, &queue, &again, "42").await,
        duplicate("41", false)
    );
    let pushed = queue.lock().unwrap().clone();
    assert_eq!(pushed, std::slice::from_ref(&first));
    // The ticket travels as JSON.
    let text = serde_json::to_string(&first).unwrap();
    let arrived: Ticket = serde_json::from_str(&text).unwrap();
    assert_eq!(succeeds(&jobs, &arrived).await, Ran::Done(7));
    assert_eq!(
        enqueue(&jobs, &queue, &again, "43").await,
        duplicate("41", true)
    );
    for other in [build("user-8", "my project"), build("user-7", "another")] {
        ticket(enqueue(&jobs, &queue, &other, "44").await);
    }
}

#[tokio::test]
async fn after_the_window_it_is_a_new_job() {
    let (jobs, queue) = jobs(Duration::from_millis(40));
    let intent = build("user-7", "project");
    let first = ticket(enqueue(&jobs, &queue, &intent, "41").await);
    tokio::time::sleep(Duration::from_millis(80)).await;
    assert_eq!(
        enqueue(&jobs, &queue, &intent, "42").await,
        duplicate("41", false),
        "the window begins when it is done"
    );
    succeeds(&jobs, &first).await;
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match enqueue(&jobs, &queue, &intent, "43").await {
            Enqueued::New(ticket) => break assert_eq!(ticket.job(), "43"),
            returned => assert_eq!(returned, duplicate("41", true)),
        }
        assert!(Instant::now() < deadline, "the window ends");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_failed_or_cancelled_job_has_no_duplicates() {
    let (jobs, queue) = jobs(MINUTE);
    let intent = build("user-7", "project");
    let first = ticket(enqueue(&jobs, &queue, &intent, "41").await);
    let failing = jobs.run(&first, async |_| Err::<u32, _>(io::Error::other("broken")));
    assert!(matches!(failing.await, Err(RunError::Work(_))));
    let second = ticket(enqueue(&jobs, &queue, &intent, "42").await);
    jobs.cancel(&second).await.unwrap();
    let third = ticket(enqueue(&jobs, &queue, &intent, "43").await);
    for superseded in [&first, &second] {
        assert_eq!(succeeds(&jobs, superseded).await, Ran::Superseded);
    }
    assert_eq!(succeeds(&jobs, &third).await, Ran::Done(7));
    assert_eq!(
        succeeds(&jobs, &third).await,
        Ran::Done(7),
        "the message came twice"
    );
    let error = jobs.cancel(&third).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ClaimLost);
}

#[tokio::test]
async fn another_payload_breaks_the_window_if_configured() {
    let (jobs, queue) = jobs(MINUTE);
    let plain = build("user-7", "project");
    let with = |commit: &str| plain.clone().with_payload(&("commit", commit)).unwrap();
    ticket(enqueue(&jobs, &queue, &plain, "41").await);
    ticket(enqueue(&jobs, &queue, &with("a"), "42").await);
    ticket(enqueue(&jobs, &queue, &with("b"), "43").await);
    assert_eq!(
        enqueue(&jobs, &queue, &with("a"), "44").await,
        duplicate("42", false)
    );
    assert_eq!(
        enqueue(&jobs, &queue, &plain, "45").await,
        duplicate("41", false)
    );
}

#[tokio::test]
async fn a_job_that_waited_too_long_is_superseded() {
    let queue = Arc::default();
    let idem = Idempotency::new(MemoryStore::new()).with_operation_policy(
        "build",
        Policy::ghost_job(MINUTE).with_lease(Duration::from_millis(10)),
    );
    let jobs = Jobs::new(idem).with_longest_wait(Duration::from_millis(30));
    let intent = build("user-7", "project");
    let old = ticket(enqueue(&jobs, &queue, &intent, "41").await);
    let deadline = Instant::now() + Duration::from_secs(20);
    let new = loop {
        match enqueue(&jobs, &queue, &intent, "42").await {
            Enqueued::New(ticket) => break ticket,
            returned => assert_eq!(returned, duplicate("41", false)),
        }
        assert!(Instant::now() < deadline, "the wait ends");
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert_eq!(succeeds(&jobs, &old).await, Ran::Superseded);
    assert_eq!(succeeds(&jobs, &new).await, Ran::Done(7));
}

#[tokio::test]
async fn sixty_four_clicks_at_once_are_one_job() {
    let (jobs, queue) = jobs(MINUTE);
    let mut clicks = tokio::task::JoinSet::new();
    for number in 0..64 {
        let (jobs, queue) = (jobs.clone(), Arc::clone(&queue));
        clicks.spawn(async move {
            let intent = build("user-7", "project");
            enqueue(&jobs, &queue, &intent, &number.to_string()).await
        });
    }
    let returned = clicks.join_all().await;
    let pushed = queue.lock().unwrap().clone();
    assert_eq!(pushed.len(), 1);
    let others = returned
        .iter()
        .filter(|returned| **returned == duplicate(pushed[0].job(), false));
    assert_eq!(others.count(), 63);
}
