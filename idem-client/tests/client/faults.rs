//! Lost answers, time-outs and refusals: what is sent again, and that it is the same.

use std::time::{Duration, Instant, SystemTime};

use idem_client::{Answer, ErrorKind, GaveUp, Protocol};
use idem_core::Effect;

use crate::support::{
    Act, Server, all_same, answer, client, delivery, error, ietf, is, memory, ok, post, quick,
    settings,
};

#[tokio::test]
async fn a_request_without_an_answer_is_repeated_byte_for_byte() {
    let broken_head = Act::Send("HTTP/1.1 200".to_owned());
    let server = Server::start([Act::Drop, broken_head, Act::Drop, ok()]).await;
    let response = post(&ietf(), &server.url(), "a").send().await.unwrap();
    is(&response, 200, 4, Answer::Unknown);
    assert_eq!(delivery(&response).gave_up, None);
    assert_eq!(response.url().as_str(), server.url());
    assert_eq!(all_same(&server.seen()), 4);
    let key = server.seen()[0].key().to_owned();
    assert_eq!(key, format!("\"{}\"", delivery(&response).key.as_str()));
}

#[tokio::test]
async fn a_server_that_hangs_is_tried_again_after_the_time_out() {
    let server = Server::start([Act::Hang, ok()]).await;
    let retry = quick().with_try_timeout(Duration::from_millis(300));
    let client = client(settings(memory(), Protocol::ietf()).with_retry(retry));
    let response = post(&client, &server.url(), "a").send().await.unwrap();
    assert!(delivery(&response).tries >= 2);
    assert!(all_same(&server.seen()) >= 2);
}

#[tokio::test]
async fn a_server_that_comes_back_is_waited_for() {
    let busy = |status, headers| answer(status, headers, "{}");
    for refusal in [
        busy(503, "retry-after: 0\r\n"),
        busy(503, ""),
        busy(500, ""),
        busy(502, ""),
        busy(504, ""),
        busy(429, ""),
        busy(425, ""),
        busy(408, ""),
        busy(409, "retry-after: 0\r\n"),
    ] {
        let server = Server::start([refusal, ok()]).await;
        let response = post(&ietf(), &server.url(), "a").send().await.unwrap();
        is(&response, 200, 2, Answer::Unknown);
        assert_eq!(all_same(&server.seen()), 2);
    }
}

#[tokio::test]
async fn an_answer_that_comes_again_is_the_caller_s() {
    for status in [200, 201, 400, 401, 404, 409, 410, 422, 501] {
        let server = Server::start([answer(status, "", r#"{"a":1}"#)]).await;
        let response = post(&ietf(), &server.url(), "a").send().await.unwrap();
        is(&response, status, 1, Answer::Unknown);
        assert_eq!(response.content_length(), Some(7));
        assert_eq!(response.text().await.unwrap(), r#"{"a":1}"#);
        assert_eq!(server.seen().len(), 1);
    }
}

#[tokio::test]
async fn the_problem_decides_not_the_status() {
    for (name, tries) in [
        ("outcome-unknown", 1),
        ("misconfigured", 1),
        ("store-unavailable", 2),
    ] {
        let body = format!(r#"{{"type":"urn:idem:problem:{name}"}}"#);
        let server = Server::start([answer(500, "", &body), ok()]).await;
        let response = post(&ietf(), &server.url(), "a").send().await.unwrap();
        assert_eq!(delivery(&response).tries, tries, "{name}");
        if tries == 1 {
            assert_eq!(
                response.text().await.unwrap(),
                body,
                "the caller can read it"
            );
        }
    }
}

#[tokio::test]
async fn seconds_and_dates_of_retry_after_are_waited_for() {
    let now = SystemTime::now();
    let date = |seconds| httpdate::fmt_http_date(now + Duration::from_secs(seconds));
    for (headers, at_least) in [
        ("retry-after: 1\r\n".to_owned(), Duration::from_secs(1)),
        (
            // The server's clock is an hour ahead; its own date says so.
            format!("date: {}\r\nretry-after: {}\r\n", date(3600), date(3601)),
            Duration::from_secs(1),
        ),
    ] {
        let server = Server::start([answer(503, &headers, "{}"), ok()]).await;
        let begun = Instant::now();
        let response = post(&ietf(), &server.url(), "a").send().await.unwrap();
        is(&response, 200, 2, Answer::Unknown);
        assert!(begun.elapsed() >= at_least, "{:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn a_wait_beyond_the_deadline_ends_the_call_at_once() {
    let server = Server::start([answer(503, "retry-after: 3600\r\n", r#"{"a":1}"#)]).await;
    let response = post(&ietf(), &server.url(), "a").send().await.unwrap();
    is(&response, 503, 1, Answer::Unknown);
    assert_eq!(delivery(&response).gave_up, Some(GaveUp::Deadline));
    assert_eq!(response.text().await.unwrap(), r#"{"a":1}"#);
}

#[tokio::test]
async fn a_refusal_that_breaks_off_is_a_lost_answer() {
    // Its status is final, but its body could say otherwise.
    let broken = "HTTP/1.1 400 Text\r\nconnection: close\r\ncontent-type: application/json\r\n\
                  content-length: 50\r\n\r\n{\"type\":";
    let server = Server::start([Act::Send(broken.to_owned()), ok()]).await;
    let response = post(&ietf(), &server.url(), "a").send().await.unwrap();
    is(&response, 200, 2, Answer::Unknown);
}

#[tokio::test]
async fn a_long_refusal_is_read_to_the_limit_and_passed_on_whole() {
    let long = format!(
        r#"{{"type":"urn:idem:problem:misconfigured","x":"{}"}}"#,
        "x".repeat(70_000)
    );
    let server = Server::start([answer(400, "", &long)]).await;
    let response = post(&ietf(), &server.url(), "a").send().await.unwrap();
    assert_eq!(response.content_length(), Some(long.len() as u64));
    assert_eq!(response.text().await.unwrap(), long);
}

#[tokio::test]
async fn a_server_that_is_down_is_an_error_that_says_so() {
    let server = Server::start([]).await;
    let url = server.url();
    drop(server);
    let retry = quick().with_max_tries(3);
    let client = client(settings(memory(), Protocol::ietf()).with_retry(retry));
    let result = post(&client, &url, "a").send().await;
    // The connection's own error, for those that look at it.
    assert!(result.unwrap_err().is_connect());
}

#[tokio::test]
async fn a_try_without_an_end_is_an_error_with_an_unknown_effect() {
    let server = Server::start([Act::Hang, Act::Hang]).await;
    let retry = quick().with_try_timeout(Duration::from_millis(50));
    let client = client(settings(memory(), Protocol::ietf()).with_retry(retry.with_max_tries(2)));
    let result = post(&client, &server.url(), "a").send().await;
    let error = error(&result);
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::NoAnswer, Effect::Unknown)
    );
    assert!(error.is_retryable());
}
