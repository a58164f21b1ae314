//! Errors on purpose, with secret data: the store is [watched](crate::secrets) in every case, and
//! in these it logs and reports most.

use std::time::Duration;

use idem_core::{
    ClaimRequest, ErrorKind, Failure, Fingerprint, IdempotencyStore, Key, Metadata, Response,
};

use super::law14_unknown::Proxied;
use crate::case::cases;
use crate::context::LONG;
use crate::failure::{ensure, ensure_eq};
use crate::secrets::{MARK, secret};
use crate::{CaseError, CaseResult, Context, expect};

cases! { LAW11, law 11:
    an_error_of_a_limit_shows_nothing_of_what_is_too_long,
}

cases! { LAW14, law 14:
    what_is_told_shows_neither_key_nor_payload,
    an_error_shows_neither_key_nor_payload,
    an_error_of_a_cut_shows_neither_key_nor_payload [Network],
    an_error_of_a_time_out_shows_neither_key_nor_payload [Network],
    an_error_of_a_damaged_record_shows_nothing_of_it [Damage],
    an_error_of_a_login_shows_no_password [Password],
}

/// Checks that the operation is refused; the watch searches the error.
fn refused<T>(result: idem_core::Result<T>) -> CaseResult {
    expect::refused(result, ErrorKind::InvalidInput).map(drop)
}

async fn an_error_of_a_limit_shows_nothing_of_what_is_too_long(cx: &Context) -> CaseResult {
    let long = secret("x".repeat(300));
    let control = secret("\u{7}");
    for (scope, operation, id) in [
        (&*long, "pay", "id"),
        ("scope", &*long, "id"),
        ("scope", "pay", &*long),
        (&*control, "pay", "id"),
        ("scope", &*control, "id"),
        ("scope", "pay", &*control),
    ] {
        let key = Key::new(scope, operation, id);
        let error = expect::refused(key, ErrorKind::InvalidInput)?;
        cx.watch().error("`Key::new`", &error);
    }
    let store = cx.store();
    let limits = store.limits();
    let request = cx.request(&cx.key(secret("one")));
    let metadata = Metadata::new().with("name", secret("x".repeat(limits.max_metadata_bytes)));
    refused(store.claim(&request.clone().with_metadata(metadata)).await)?;
    let claim = cx.claim(&request).await?;
    let large = secret("x".repeat(limits.max_result_bytes));
    let response = Response::new(200, large.clone());
    refused(store.complete(&claim, &response, LONG).await)?;
    let failure = Failure::new("code", MARK).with_details(large);
    refused(store.fail(&claim, &failure, LONG).await)?;
    let header = Response::new(200, "").with_header(secret("n".repeat(70_000)), MARK);
    refused(store.complete(&claim, &header, LONG).await)?;
    refused(store.renew(&claim, Duration::ZERO).await.map(drop))
}

/// Claims a key in each state, and shows requests and answers to the watch.
async fn what_is_told_shows_neither_key_nor_payload(cx: &Context) -> CaseResult {
    let watch = cx.watch();
    for expected in cx.claims_in_every_state(MARK).await? {
        let request = &expected.request;
        watch.debug("a claim's request", request);
        let outcome = cx.store().claim(request).await?;
        watch.text("an outcome", &format!("{outcome:#?}"));
        let record = cx.store().get(request.key()).await?;
        watch.text("a record", &format!("{record:#?}"));
    }
    let response = Response::new(200, secret("body")).with_header(MARK, MARK);
    watch.debug("a response", &response);
    watch.debug("a failure", &Failure::new("code", MARK).with_details(MARK));
    watch.debug("metadata", &Metadata::new().with("name", MARK));
    watch.debug("a fingerprint", &Fingerprint::raw(MARK));
    watch.debug("a key", &cx.key(MARK));
    watch.debug("a context", cx);
    Ok(())
}

async fn an_error_shows_neither_key_nor_payload(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key(secret("done")))).await?;
    let [response, other] = ["one", "two"].map(|body| Response::new(200, secret(body)));
    cx.store().complete(&claim, &response, LONG).await?;
    let failure = Failure::new("code", secret("message")).with_details(MARK);
    let lost = cx.stale_claim(&cx.request(&cx.key(secret("lost")))).await?;
    cx.hold(&cx.request(lost.key())).await?;
    let errors = [
        cx.store().complete(&claim, &other, LONG).await.err(),
        cx.store().fail(&claim, &failure, LONG).await.err(),
        cx.store().release(&claim).await.err(),
        cx.store().renew(&claim, LONG).await.err(),
        cx.store().renew(&claim, Duration::ZERO).await.err(),
        cx.store().complete(&lost, &other, LONG).await.err(),
        cx.store().fail(&lost, &failure, LONG).await.err(),
        cx.store().release(&lost).await.err(),
        cx.store().renew(&lost, LONG).await.err(),
    ];
    for error in errors {
        let error = error.ok_or_else(|| CaseError::new("it succeeded"))?;
        let shown = format!("{error} {error:?} {error:#?}");
        ensure!(!shown.contains(MARK), "shown: {shown}");
        ensure!(!error.backend().is_empty(), "no backend: {shown}");
        ensure!(!error.operation().is_empty(), "no operation: {shown}");
    }
    Ok(())
}

/// More messages than any operation needs.
const MOST_MESSAGES: u32 = 40;

async fn an_error_of_a_cut_shows_neither_key_nor_payload(cx: &Context) -> CaseResult {
    let proxied = Proxied::start(cx).await?;
    let mut seen = 0;
    for messages in 0..MOST_MESSAGES {
        proxied.warm_up(cx, &format!("warm up {messages}")).await?;
        let request = cx.request(&cx.key(secret(messages)));
        let before = proxied.proxy.cuts();
        proxied.proxy.cut_after(messages);
        let claimed = proxied.store.claim(&request).await;
        let held = cx.store().claim(&request).await?;
        let response = Response::new(200, secret("body"));
        let completed = match held.acquired() {
            Some(claim) => proxied.store.complete(&claim, &response, LONG).await,
            None => Ok(()),
        };
        proxied.proxy.disarm();
        seen += u32::from(claimed.is_err()) + u32::from(completed.is_err());
        if proxied.proxy.cuts() == before {
            break;
        }
    }
    proxied.proxy.close();
    let request = cx.request(&cx.key(secret("never")));
    seen += u32::from(proxied.store.claim(&request).await.is_err());
    ensure!(seen > 0, "no operation failed");
    Ok(())
}

async fn an_error_of_a_time_out_shows_neither_key_nor_payload(cx: &Context) -> CaseResult {
    let proxied = Proxied::start(cx).await?;
    proxied.warm_up(cx, "warm up").await?;
    let claim = cx.claim(&cx.request(&cx.key(secret("held")))).await?;
    proxied.proxy.stall();
    let [one, two] = [0, 1].map(|number| cx.request(&cx.key(secret(number))));
    let response = Response::new(200, secret("body"));
    let (claimed, completed, looked) = tokio::join!(
        proxied.store.claim(&one),
        proxied.store.complete(&claim, &response, LONG),
        proxied.store.get(two.key()),
    );
    let errors = [claimed.err(), completed.err(), looked.err()];
    for error in errors {
        let error = error.ok_or_else(|| CaseError::new("nobody answered, and yet it succeeded"))?;
        ensure_eq!(error.kind(), ErrorKind::Unavailable, "kind of {error}");
    }
    Ok(())
}

async fn an_error_of_a_damaged_record_shows_nothing_of_it(cx: &Context) -> CaseResult {
    let request = cx.request(&cx.key(secret("damaged")));
    let claim = cx.claim(&request).await?;
    let response = Response::new(200, secret("body"));
    cx.store().complete(&claim, &response, LONG).await?;
    let damage = cx.harness().damage(cx.namespace(), request.key());
    ensure!(damage.await?, "damage is promised, and not done");
    // Its own handle, so that no cache knows the earlier record.
    let store = cx.open().await?;
    let again = ClaimRequest::new(request.key().clone(), *request.fingerprint());
    let errors = [
        store.claim(&again).await.err(),
        store.get(request.key()).await.err(),
    ];
    for error in errors {
        let error =
            error.ok_or_else(|| CaseError::new("what is damaged was taken for a record"))?;
        ensure_eq!(error.kind(), ErrorKind::Corrupt, "kind of {error}");
    }
    Ok(())
}

async fn an_error_of_a_login_shows_no_password(cx: &Context) -> CaseResult {
    let opened = cx.harness().open_with_password(cx.namespace(), MARK);
    match opened.await {
        Ok(None) => Err(CaseError::new("a password is promised, and not used")),
        // The server takes any password, or the store has not connected yet.
        Ok(Some(store)) => {
            let store = cx.watching(store);
            let returned = store.get(&cx.key("one")).await;
            cx.watch().debug("the answer", &returned);
            Ok(())
        }
        Err(error) => {
            cx.watch().error("opening", &*error);
            // The `Debug` of a boxed error is that of the error.
            cx.watch().debug("the error of opening", &error);
            Ok(())
        }
    }
}
