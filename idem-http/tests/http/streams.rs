//! Answers that are streams: each piece passes at once, and the record is made beside.

use std::io;
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use futures_util::stream::poll_fn;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use idem_core::{Idempotency, MemoryStore, Policy};
use idem_http::{HttpPolicy, OnDisconnect, ProblemType, presets};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tower::ServiceExt;

use crate::support::{Answer, App, layer_on, post, until};

const CALL: &str = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"pay","_meta":{"idempotencyKey":"k"}}}"#;
const PROGRESS: &str = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n";
const QUESTION: &str =
    "data: {\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"elicitation/create\"}\n\n";
const RESULT: &str = "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"paid\":1}}\n\n";
const REPLAY: &str = r#"{"jsonrpc":"2.0","id":7,"result":{"paid":1}}"#;
/// The server closes the stream, and the client comes back for the rest (SEP-1699).
const POLL: &str = "id: 1\nretry: 300\ndata: \n\n";

type Feed = mpsc::UnboundedSender<io::Result<&'static str>>;

/// A service whose streams the test writes.
struct Fed {
    app: App,
    feeds: mpsc::UnboundedReceiver<Feed>,
}

impl Fed {
    fn new(policy: HttpPolicy, lease: Duration) -> Self {
        let idempotency = Idempotency::new(MemoryStore::new());
        let idempotency = idempotency.with_policy(Policy::default().with_lease(lease));
        let layer = layer_on(idempotency).with_policy(policy.with_wait(Duration::ZERO));
        let (sender, feeds) = mpsc::unbounded_channel();
        let app = App::new(layer, move |_| {
            let (feed, mut pieces) = mpsc::unbounded_channel();
            sender.send(feed).unwrap();
            async move {
                let pieces = poll_fn(move |context| pieces.poll_recv(context));
                let events = [(CONTENT_TYPE, "text/event-stream")];
                (events, Body::from_stream(pieces)).into_response()
            }
        });
        Self { app, feeds }
    }

    fn mcp(choice: OnDisconnect) -> Self {
        let policy = presets::mcp(["pay"]).with_on_disconnect(choice);
        Self::new(policy, Duration::from_secs(300))
    }

    fn plain() -> Self {
        let policy = HttpPolicy::ietf().with_max_response_bytes(64);
        Self::new(policy, Duration::from_secs(300))
    }

    /// Sends a request, and returns its stream, with the way of the handler to it.
    async fn open(&mut self, request: Request) -> (BodyDataStream, Feed) {
        let response: Response = self.app.router.clone().oneshot(request).await.unwrap();
        let feed = timeout(Duration::from_secs(20), self.feeds.recv()).await;
        let feed = feed.expect("the service runs").unwrap();
        (response.into_body().into_data_stream(), feed)
    }

    /// Returns whether a repetition of the call is refused.
    async fn refused(&self) -> bool {
        let request = post("k", CALL);
        let response: Response = self.app.router.clone().oneshot(request).await.unwrap();
        if response.headers()[CONTENT_TYPE] == "text/event-stream" {
            return false;
        }
        let answer = Answer::read(response).await;
        answer.text().contains("idempotency_key_in_progress")
    }
}

/// Returns the next piece; `None` at the end.
async fn next(stream: &mut BodyDataStream) -> Option<Result<String, ()>> {
    let piece = timeout(Duration::from_secs(20), stream.next()).await;
    let piece = piece.expect("it passes at once")?;
    Some(match piece {
        Ok(bytes) => Ok(String::from_utf8(bytes.to_vec()).unwrap()),
        Err(_) => Err(()),
    })
}

async fn expect(stream: &mut BodyDataStream, text: &str) {
    assert_eq!(next(stream).await, Some(Ok(text.to_owned())));
}

#[tokio::test]
async fn a_client_answers_a_question_of_the_call_before_the_call_ends() {
    let mut fed = Fed::mcp(OnDisconnect::Finish);
    let (mut stream, feed) = fed.open(post("k", CALL)).await;
    for event in [PROGRESS, QUESTION] {
        feed.send(Ok(event)).unwrap();
        expect(&mut stream, event).await;
    }
    assert!(fed.refused().await);
    let answer = post("k", r#"{"jsonrpc":"2.0","id":"q","result":{}}"#);
    let resumed = Request::get("/").header("last-event-id", "1");
    for passing in [answer, resumed.body(Body::empty()).unwrap()] {
        drop(fed.open(passing).await);
    }
    feed.send(Ok(RESULT)).unwrap();
    expect(&mut stream, RESULT).await;
    // Whoever has the result finds it stored, although the stream goes on.
    let replay = fed.app.send(post("k", CALL)).await;
    assert_eq!(replay.text(), REPLAY);
    feed.send(Ok(PROGRESS)).unwrap();
    expect(&mut stream, PROGRESS).await;
    drop(feed);
    assert_eq!(next(&mut stream).await, None);
    assert_eq!(fed.app.runs(), 3);
}

#[tokio::test]
async fn a_stream_without_its_result_keeps_the_key_for_its_lease() {
    for millis in [300_000, 300] {
        for last in [Ok(POLL), Ok(PROGRESS), Err(io::Error::other("broken"))] {
            let policy = presets::mcp(["pay"]);
            let mut fed = Fed::new(policy, Duration::from_millis(millis));
            let (mut stream, feed) = fed.open(post("k", CALL)).await;
            let expected = last
                .as_ref()
                .map_or(Err(()), |event| Ok((*event).to_owned()));
            feed.send(last).unwrap();
            drop(feed);
            assert_eq!(next(&mut stream).await, Some(expected));
            assert_eq!(next(&mut stream).await, None);
            match millis {
                300 => until(async || !fed.refused().await).await,
                _ => assert!(fed.refused().await),
            }
        }
    }
}

#[tokio::test]
async fn a_client_that_hangs_up_in_the_stream_ends_it_only_where_the_policy_says_so() {
    for (choice, runs) in [(OnDisconnect::Finish, 1), (OnDisconnect::Cancel, 2)] {
        let mut fed = Fed::mcp(choice);
        let (mut stream, feed) = fed.open(post("k", CALL)).await;
        feed.send(Ok(PROGRESS)).unwrap();
        expect(&mut stream, PROGRESS).await;
        assert!(fed.refused().await);
        drop(stream);
        if choice == OnDisconnect::Cancel {
            feed.closed().await;
        }
        // Nobody reads them, and they are more than a client may leave unread.
        for _ in 0..100 {
            let _ = feed.send(Ok(PROGRESS));
        }
        let _ = feed.send(Ok(RESULT));
        until(async || !fed.refused().await).await;
        assert_eq!(fed.app.runs(), runs, "{choice:?}");
    }
}

#[tokio::test]
async fn a_result_that_is_not_the_last_word_releases_the_key_before_it_passes() {
    let mut fed = Fed::mcp(OnDisconnect::Finish);
    let open = "data: {\"id\":7,\"result\":{\"resultType\":\"input_required\"}}\n\n";
    for runs in 1..=2 {
        let (mut stream, feed) = fed.open(post("k", CALL)).await;
        feed.send(Ok(open)).unwrap();
        expect(&mut stream, open).await;
        assert_eq!(fed.app.runs(), runs);
    }
}

#[tokio::test]
async fn a_stream_of_a_call_that_crashed_releases_the_key() {
    let call = r#"{"jsonrpc":"2.0","id":7,"method":"message/stream","params":{"message":{"messageId":"m"}}}"#;
    let crashed = "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32603}}\n\n";
    let working = "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"task\":{}}}\n\n";
    for (last, runs) in [(crashed, 2), (working, 1)] {
        let mut fed = Fed::new(presets::a2a(), Duration::from_secs(300));
        for _ in 0..runs {
            let (mut stream, feed) = fed.open(post("k", call)).await;
            for event in [working, last] {
                feed.send(Ok(event)).unwrap();
                expect(&mut stream, event).await;
            }
            drop(feed);
            assert_eq!(next(&mut stream).await, None);
        }
        assert_eq!(fed.app.runs(), runs);
        if last == working {
            let replay = fed.app.send(post("k", call)).await;
            assert_eq!((replay.text(), fed.app.runs()), (&*working.repeat(2), 1));
        }
    }
}

#[tokio::test]
async fn lines_of_json_are_stored_and_get_the_id_of_their_call() {
    let layer = crate::support::layer(presets::mcp(["pay"]));
    let app = App::new(layer, |_| async {
        let lines = "{\"method\":\"progress\"}\n{\"id\":7,\"result\":{}}\n";
        ([(CONTENT_TYPE, "application/x-ndjson")], lines).into_response()
    });
    let first = app.send(post("k", CALL)).await;
    let again = app.send(post("k", CALL.replace(":7", ":8").leak())).await;
    assert_eq!(again.text(), first.text().replace(":7", ":8"));
    assert_eq!(app.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stream_whose_client_is_gone_ends_after_a_time() {
    let mut fed = Fed::mcp(OnDisconnect::Finish);
    let (stream, feed) = fed.open(post("k", CALL)).await;
    drop(stream);
    let begun = tokio::time::Instant::now();
    while feed.send(Ok(": a comment\n\n")).is_ok() {
        tokio::time::sleep(Duration::from_secs(15)).await;
        assert!(begun.elapsed() < Duration::from_secs(660));
    }
    assert!(begun.elapsed() >= Duration::from_secs(600));
    assert!(fed.refused().await, "it may go on elsewhere");
}

#[tokio::test]
async fn a_plain_stream_passes_at_once_and_is_replayed_whole() {
    let mut fed = Fed::plain();
    let (mut stream, feed) = fed.open(post("k", "{}")).await;
    for event in ["data: 1\n\n", "data: 2\n\n"] {
        feed.send(Ok(event)).unwrap();
        expect(&mut stream, event).await;
        let busy = fed.app.send(post("k", "{}")).await;
        busy.problem(ProblemType::RequestInFlight);
    }
    drop(feed);
    assert_eq!(next(&mut stream).await, None);
    let replay = fed.app.send(post("k", "{}")).await;
    assert!(replay.is_replayed());
    assert_eq!(replay.header("content-type"), Some("text/event-stream"));
    assert_eq!(replay.text(), "data: 1\n\ndata: 2\n\n");
}

#[tokio::test]
async fn a_stream_over_the_limit_goes_on_and_leaves_the_marker() {
    let mut fed = Fed::plain();
    let (mut stream, feed) = fed.open(post("k", "{}")).await;
    let long = "data: more than thirty-two characters\n\n";
    for _ in 0..3 {
        feed.send(Ok(long)).unwrap();
        expect(&mut stream, long).await;
    }
    let retry = fed.app.send(post("k", "{}")).await;
    retry.problem(ProblemType::ResponseNotStored);
    drop(stream);
    feed.closed().await;
}

#[tokio::test]
async fn a_plain_stream_that_breaks_off_is_no_whole_one() {
    let mut fed = Fed::plain();
    let (mut stream, feed) = fed.open(post("k", "{}")).await;
    feed.send(Ok("data: 1\n\n")).unwrap();
    feed.send(Err(io::Error::other("broken"))).unwrap();
    expect(&mut stream, "data: 1\n\n").await;
    assert_eq!(next(&mut stream).await, Some(Err(())));
    let retry = fed.app.send(post("k", "{}")).await;
    retry.problem(ProblemType::RequestInFlight);
}

/// An HTTP server must not take the part for the whole.
#[tokio::test]
async fn a_panic_of_a_streams_body_reaches_the_server() {
    let idempotency = Idempotency::new(MemoryStore::new());
    let app = App::new(layer_on(idempotency), |_| async {
        let mut pieces = 0;
        let body = Body::from_stream(poll_fn(move |context| {
            pieces += 1;
            match pieces {
                1 => std::task::Poll::Ready(Some(io::Result::Ok("data: 1\n\n"))),
                2 => {
                    context.waker().wake_by_ref();
                    std::task::Poll::Pending
                }
                _ => panic!("the body panics"),
            }
        }));
        ([(CONTENT_TYPE, "text/event-stream")], body)
    });
    let response: Response = app.router.clone().oneshot(post("k", "{}")).await.unwrap();
    let reading = tokio::spawn(Answer::read(response));
    assert!(reading.await.unwrap_err().is_panic());
    // It released the key.
    let other: Response = app.router.clone().oneshot(post("k", "[]")).await.unwrap();
    assert_eq!(other.status(), StatusCode::OK);
}
