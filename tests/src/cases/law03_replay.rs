//! Law 3: a replay is exact, byte for byte.

use idem_core::{Bytes, Failure, Response};
use rand::RngExt;

use crate::case::cases;
use crate::context::LONG;
use crate::failure::ensure_eq;
use crate::{CaseResult, Context, expect};

cases! { law 3:
    an_empty_response_is_replayed,
    a_body_of_every_byte_value_is_replayed,
    a_large_body_is_replayed: expensive,
    a_body_of_any_length_is_replayed,
    bodies_that_look_like_something_else_are_replayed,
    statuses_at_the_extremes_are_replayed,
    repeated_headers_keep_their_order,
    header_values_of_any_bytes_are_replayed,
    empty_headers_are_replayed,
    many_headers_are_replayed,
    a_failure_is_replayed_byte_for_byte,
    an_empty_failure_is_replayed,
    replays_do_not_wear_out,
}

/// Stores the response under its own key, and checks that a claim through another handle and a
/// lookup return the same.
async fn round_trip(cx: &Context, id: &str, response: Response) -> CaseResult {
    let key = cx.key(id);
    let claim = cx.claim(&cx.request(&key)).await?;
    cx.store().complete(&claim, &response, LONG).await?;
    let replay = expect::completed(cx.open().await?.claim(&cx.request(&key)).await?)?;
    same(&replay.response, &response, id)?;
    let record = expect::record(cx.store().get(&key).await?)?;
    same(
        record
            .response()
            .unwrap_or(&Response::new(0, "no response")),
        &response,
        id,
    )
}

/// Compares part by part, so that a failure names the part.
fn same(replay: &Response, sealed: &Response, id: &str) -> CaseResult {
    ensure_eq!(replay.status(), sealed.status(), "status of {id}");
    ensure_eq!(replay.headers(), sealed.headers(), "headers of {id}");
    ensure_eq!(replay.body().len(), sealed.body().len(), "length of {id}");
    ensure_eq!(replay.body() == sealed.body(), true, "body of {id}");
    Ok(())
}

async fn an_empty_response_is_replayed(cx: &Context) -> CaseResult {
    round_trip(cx, "empty", Response::new(204, "")).await?;
    round_trip(cx, "unit", Response::new(200, Bytes::new())).await
}

async fn a_body_of_every_byte_value_is_replayed(cx: &Context) -> CaseResult {
    let every: Vec<u8> = (0..=255).collect();
    let backwards: Vec<u8> = (0..=255).rev().collect();
    round_trip(cx, "every", Response::new(200, every)).await?;
    round_trip(cx, "backwards", Response::new(200, backwards)).await
}

async fn a_large_body_is_replayed(cx: &Context) -> CaseResult {
    let mut body = vec![0; cx.profile().max_result_bytes().min(1 << 20)];
    cx.rng().fill(&mut body[..]);
    round_trip(cx, "random", Response::new(200, body.clone())).await?;
    body.fill(b'a');
    round_trip(cx, "all the same", Response::new(200, body)).await
}

async fn a_body_of_any_length_is_replayed(cx: &Context) -> CaseResult {
    let mut rng = cx.rng();
    for around in [1, 255, 256, 1024, 4096, 8192, 65_535] {
        let mut body = vec![0; around + rng.random_range(0..3)];
        rng.fill(&mut body[..]);
        round_trip(cx, &format!("about {around}"), Response::new(200, body)).await?;
    }
    Ok(())
}

async fn bodies_that_look_like_something_else_are_replayed(cx: &Context) -> CaseResult {
    let bodies: [&[u8]; 9] = [
        b"null",
        b"{\"status\":1, \"a\" : 1.0}\r\n",
        b"'; DROP TABLE idem; --",
        b"\\x00\\n %s $1 ?",
        b"\0",
        b"trailing zeros and spaces \0\0  ",
        b"\xef\xbb\xbfbyte order mark",
        b"\xff\xfe\xed\xa0\x80\xc0\xaf",
        "e\u{301} \u{e9} \u{200b}".as_bytes(),
    ];
    for (at, body) in bodies.into_iter().enumerate() {
        round_trip(cx, &format!("body {at}"), Response::new(200, body)).await?;
    }
    Ok(())
}

async fn statuses_at_the_extremes_are_replayed(cx: &Context) -> CaseResult {
    for status in [0, 1, 255, 256, 599, 32_767, 32_768, 65_535] {
        round_trip(cx, &format!("status {status}"), Response::new(status, "x")).await?;
    }
    Ok(())
}

async fn repeated_headers_keep_their_order(cx: &Context) -> CaseResult {
    let response = Response::new(200, "x")
        .with_header("z-last", "1")
        .with_header("set-cookie", "b=2")
        .with_header("a-first", "2")
        .with_header("set-cookie", "a=1")
        .with_header("Set-Cookie", "b=2")
        .with_header("set-cookie", "b=2");
    round_trip(cx, "cookies", response).await
}

async fn header_values_of_any_bytes_are_replayed(cx: &Context) -> CaseResult {
    let every: Vec<u8> = (0..=255).collect();
    let response = Response::new(200, "x")
        .with_header("x-bytes", every)
        .with_header("x-broken", &b"\xff\xfe"[..])
        .with_header("x-\u{e9}\u{301}\0 \"name\"", " leading and trailing ");
    round_trip(cx, "values", response).await
}

async fn empty_headers_are_replayed(cx: &Context) -> CaseResult {
    let response = Response::new(200, "")
        .with_header("", "")
        .with_header("x-empty", "")
        .with_header("", "no name");
    round_trip(cx, "empty headers", response).await
}

async fn many_headers_are_replayed(cx: &Context) -> CaseResult {
    let header = |response: Response, at: u32| {
        response.with_header(format!("x-{}", at * 7919 % 300), at.to_string())
    };
    round_trip(cx, "300", (0..300).fold(Response::new(200, "x"), header)).await?;
    let long = Response::new(200, "x").with_header("n".repeat(9000), "v".repeat(20_000));
    round_trip(cx, "long", long).await
}

async fn fail_and_replay(cx: &Context, id: &str, failure: Failure) -> CaseResult {
    let key = cx.key(id);
    let claim = cx.claim(&cx.request(&key)).await?;
    cx.store().fail(&claim, &failure, LONG).await?;
    let replay = expect::failed(cx.open().await?.claim(&cx.request(&key)).await?)?;
    ensure_eq!(replay.failure.code(), failure.code(), "code");
    ensure_eq!(replay.failure.message(), failure.message(), "message");
    ensure_eq!(replay.failure.details(), failure.details(), "details");
    Ok(())
}

async fn a_failure_is_replayed_byte_for_byte(cx: &Context) -> CaseResult {
    let every: Vec<u8> = (0..=255).collect();
    let failure = Failure::new("card.declined \u{301}'\"", "été\0\r\n 🦀 ");
    fail_and_replay(cx, "odd", failure.with_details(every)).await
}

async fn an_empty_failure_is_replayed(cx: &Context) -> CaseResult {
    fail_and_replay(cx, "empty", Failure::new("", "")).await?;
    fail_and_replay(cx, "details", Failure::new("", "").with_details("only")).await
}

async fn replays_do_not_wear_out(cx: &Context) -> CaseResult {
    let key = cx.key("asked for often");
    let claim = cx.claim(&cx.request(&key)).await?;
    let response = Response::new(200, "always the same").with_header("x", "y");
    cx.store().complete(&claim, &response, LONG).await?;
    let handles = [cx.open().await?, cx.open().await?];
    let first = expect::completed(handles[0].claim(&cx.request(&key)).await?)?;
    for at in 0..50 {
        let replay = expect::completed(handles[at % 2].claim(&cx.request(&key)).await?)?;
        same(&replay.response, &response, "replay")?;
        ensure_eq!(replay.sealed_at, first.sealed_at, "instant of sealing");
        ensure_eq!(
            replay.info.expires_at,
            first.info.expires_at,
            "end of retention"
        );
    }
    Ok(())
}
