//! Names: characters that are special in Redis, a pattern or a cluster.

use idem_conformance::{Case, CaseResult, Context};
use idem_core::{ClaimOutcome, IdempotencyStore, Key, Record, Response, StalePolicy};

use super::{HOUR, case, record_key};
use crate::support;

pub(super) const NAMESPACES_NEVER_MIX: Case = case(10, "namespaces_never_mix", |cx| {
    Box::pin(namespaces_never_mix(cx))
});
pub(super) const NAMES_THAT_REDIS_READS_IN_ITS_OWN_WAY_ARE_KEPT_APART: Case = case(
    10,
    "names_that_redis_reads_in_its_own_way_are_kept_apart",
    |cx| Box::pin(names_that_redis_reads_in_its_own_way_are_kept_apart(cx)),
);

/// One namespace begins with another, or differs in a character that a pattern would take for any.
async fn namespaces_never_mix(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let namespace = cx.namespace();
    let mut stores = Vec::new();
    for name in ["", ".r", "-r", "_r", ".", "R"] {
        stores.push(harness.store(&format!("{namespace}{name}")).await?);
    }
    let stale = cx.request(&cx.key("one")).with_on_stale(StalePolicy::Fail);
    let stale = stale.with_lease(cx.short());
    let mut claims = Vec::new();
    for store in &stores {
        claims.push(store.claim(&stale).await?.acquired().expect("its own"));
    }
    for store in &stores {
        // Stale in its own namespace only by its own clock; all leases are equally short.
        let mut swept = 0;
        while swept == 0 {
            swept = store.fail_abandoned(100).await?;
        }
        assert_eq!(swept, 1, "{}", store.config().namespace());
    }
    for (store, claim) in stores.iter().zip(&claims) {
        let response = Response::new(200, "late");
        assert!(store.complete(claim, &response, HOUR).await.is_err());
        let record = store.get(claim.key()).await?;
        assert!(matches!(record, Some(Record::Failed(_))), "failed once");
    }
    Ok(())
}

fn names() -> Vec<Key> {
    let key = |scope: &str, id: &str| Key::new(scope, "payments.create", id).expect("valid");
    let mut keys: Vec<_> = [
        "*",
        "?",
        "[a-z]",
        "a",
        "b",
        "{a}",
        "{b}",
        "{",
        "}",
        "{}",
        "a{b}c",
        "\\*",
        "\\",
        "a*",
        "%3A",
        ":",
        "%3a",
        "%",
        "::",
        "\"",
        "'",
        "a b",
        " ",
        "💶",
        "é",
        "e\u{301}",
        "\u{202e}a",
        "\u{feff}",
    ]
    .map(|id| key("tenant", id))
    .into();
    keys.push(key("tenant:payments.create", "a"));
    keys.push(key("tenant%3Apayments.create", "a"));
    keys.push(key("{tenant}", "a"));
    keys.push(key("ten*", "a"));
    keys.push(key("é", &"é".repeat(127)));
    keys
}

async fn names_that_redis_reads_in_its_own_way_are_kept_apart(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let store = harness.store(cx.namespace()).await?;
    let keys = names();
    let mut claims = Vec::new();
    for key in &keys {
        let request = cx.request(key).with_on_stale(StalePolicy::Fail);
        claims.push(cx.claim(&request.with_lease(cx.short())).await?);
    }
    for key in &keys {
        cx.until_stale(key).await?;
    }
    let count = keys.len() as u64;
    assert_eq!(
        store.fail_abandoned(10_000).await?,
        count,
        "each of them is found"
    );
    let known: std::collections::BTreeSet<_> =
        keys.iter().map(|key| record_key(&store, key)).collect();
    assert_eq!(known.len(), keys.len(), "a key of its own for each");
    for key in &keys {
        // No name determines its slot in a cluster.
        assert!(!record_key(&store, key).contains(['{', '}']));
        let outcome = store.claim(&cx.request(key)).await?;
        assert!(matches!(outcome, ClaimOutcome::Failed(_)), "{key:?}");
    }
    Ok(())
}
