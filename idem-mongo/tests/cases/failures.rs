//! Servers that do not support an operation, or do not answer.

use std::time::Duration;

use idem_conformance::cancel::{plan, polled};
use idem_conformance::migration::is_misconfigured;
use idem_conformance::{Case, CaseResult, Context};
use idem_core::{Effect, ErrorKind, IdempotencyStore, Response};
use idem_mongo::mongodb::Client;
use idem_mongo::{Config, MongoStore, Transactions};
use tokio::net::TcpListener;

use super::case;
use crate::support::{self, Watch, standalone};

pub(super) const A_STANDALONE_SERVER_HAS_NO_TRANSACTIONS: Case =
    case(14, "a_standalone_server_has_no_transactions", |cx| {
        Box::pin(a_standalone_server_has_no_transactions(cx))
    });
pub(super) const WHAT_A_COMPATIBLE_SERVER_LACKS_IS_NAMED: Case =
    case(14, "what_a_compatible_server_lacks_is_named", |cx| {
        Box::pin(what_a_compatible_server_lacks_is_named(cx))
    });
pub(super) const A_SERVER_THAT_DOES_NOT_ANSWER_IS_UNAVAILABLE: Case =
    case(14, "a_server_that_does_not_answer_is_unavailable", |cx| {
        Box::pin(a_server_that_does_not_answer_is_unavailable(cx))
    });
pub(super) const DROPPED_OPERATIONS_BREAK_NO_CONNECTION: Case =
    case(13, "dropped_operations_break_no_connection", |cx| {
        Box::pin(dropped_operations_break_no_connection(cx))
    });
pub(super) const DEBUG_SHOWS_NO_PASSWORD: Case = case(11, "debug_shows_no_password", |cx| {
    Box::pin(debug_shows_no_password(cx))
});

async fn a_standalone_server_has_no_transactions(cx: &Context) -> CaseResult {
    let url = format!(
        "mongodb://{}/?directConnection=true",
        standalone::start().await?
    );
    let client = Client::with_uri_str(&url).await?;
    let mut session = client.start_session().await?;
    let store = MongoStore::new(client);
    let transactions = Transactions::new(&store);
    let claim = cx.claim(&cx.request(&cx.key("one"))).await?;
    let response = Response::new(200, "done");
    let hour = Duration::from_secs(3600);
    let errors = [
        transactions.attempts().begin().await.err(),
        store
            .claim_in(&mut session, &cx.request(&cx.key("two")))
            .await
            .err(),
        store
            .complete_in(&mut session, &claim, &response, hour)
            .await
            .err(),
    ];
    for error in errors {
        let error = error.expect("there is no transaction on a standalone server");
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        assert_eq!(error.effect(), Effect::None);
        assert!(error.to_string().contains("replica set of one"), "{error}");
    }
    Ok(())
}

/// In the words of Amazon DocumentDB and Azure Cosmos DB, or in others.
async fn what_a_compatible_server_lacks_is_named(cx: &Context) -> CaseResult {
    const SERVERS: [(standalone::Refused, &str, bool); 5] = [
        (
            ("$$NOW", 17276, "Use of undefined variable: NOW"),
            "`$$NOW`",
            true,
        ),
        (
            ("findAndModify", 9, "'update' must be an object"),
            "update by a pipeline",
            true,
        ),
        (
            ("findAndModify", 303, "Feature not supported"),
            "update by a pipeline",
            true,
        ),
        (
            ("collation", 303, "Field 'collation' is not supported"),
            "collation",
            false,
        ),
        (
            ("expireAfterSeconds", 67, "only on the field _ts"),
            "TTL index",
            false,
        ),
    ];
    for (refused, missing, is_for_all) in SERVERS {
        let address = standalone::start_without(refused).await?;
        let url = format!("mongodb://{address}/?directConnection=true");
        let store = MongoStore::connect(&url, Config::new()).await?;
        let mut errors = vec![store.migrate().await.unwrap_err()];
        if is_for_all {
            errors.push(store.verify().await.unwrap_err());
        }
        for error in errors {
            is_misconfigured(&error, missing);
            assert!(!error.to_string().contains("5.0 or later"), "{error}");
        }
        let error = store.claim(&cx.request(&cx.key("one"))).await.unwrap_err();
        is_misconfigured(&error, "migrate()");
    }
    Ok(())
}

async fn a_server_that_does_not_answer_is_unavailable(cx: &Context) -> CaseResult {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let url = format!(
        "mongodb://{}/?directConnection=true",
        listener.local_addr()?
    );
    let config = Config::new().with_timeout(Duration::from_millis(300));
    let error = MongoStore::connect(&url, config.clone()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let store = MongoStore::with_config(Client::with_uri_str(&url).await?, config);
    let error = store.claim(&cx.request(&cx.key("one"))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(error.effect(), Effect::None, "nothing was sent: {error}");
    Ok(())
}

/// A dropped future of the driver closes its connection (RUST-937); the store's tasks poll them to
/// their end.
async fn dropped_operations_break_no_connection(cx: &Context) -> CaseResult {
    let (harness, watch) = (support::harness()?, Watch::default());
    let config = harness.config(cx.namespace())?;
    let store = watch.store(&harness, config).await?;
    for polls in plan() {
        let request = cx.request(&cx.key(format!("{polls} polls")));
        let claimed = polled(store.claim(&request), polls).await.transpose()?;
        let claim = cx.claim(&request).await?;
        let response = Response::new(200, vec![7; 100_000]);
        let completing = store.complete(&claim, &response, Duration::from_secs(60));
        let completed = polled(completing, polls).await.transpose()?;
        if claimed.is_some() && completed.is_some() {
            break;
        }
    }
    store.get(&cx.key("none")).await?;
    assert_eq!(watch.broken(), Vec::<String>::new(), "closed connections");
    Ok(())
}

async fn debug_shows_no_password(_: &Context) -> CaseResult {
    let address = standalone::start().await?;
    let url = format!("mongodb://me:s3cret@{address}/?directConnection=true");
    let store = MongoStore::new(Client::with_uri_str(&url).await?);
    let shown = format!("{store:?}");
    assert!(
        !shown.contains("s3cret") && shown.contains("idem_records"),
        "{shown}"
    );
    let error = MongoStore::connect(&url, Config::new()).await.unwrap_err();
    assert!(
        !format!("{error} {error:?}").contains("s3cret"),
        "{error:?}"
    );
    Ok(())
}
