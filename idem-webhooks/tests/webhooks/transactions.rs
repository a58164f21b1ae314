//! Events that are handled in transactions.

use idem_core::ErrorKind;
use idem_sqlite::{Config, SqliteStore, Transactions};
use idem_webhooks::{Received, Receiver};

use crate::support::delivery::{delivery, verifier, versioned};

#[tokio::test]
async fn an_event_leaves_its_rows_and_its_record_or_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}/shop.db", folder.path().display());
    let store = SqliteStore::connect(&url, Config::new()).await.unwrap();
    store.migrate().await.unwrap();
    let table = sqlx::query("CREATE TABLE events (id TEXT NOT NULL)");
    table.execute(store.pool()).await.unwrap();
    let transactions = Transactions::new(&store);
    let receiver = Receiver::new(store.clone(), verifier(), "octo-org").unwrap();
    let mut received = Vec::new();
    for works in [false, true, true] {
        let request = delivery("one", "{}");
        let answer = receiver.receive_in(&transactions, &request, async |mut tx, event, _| {
            let insert = sqlx::query("INSERT INTO events VALUES (?)").bind(event.id().to_owned());
            insert.execute(&mut **tx).await?;
            if works { Ok(()) } else { Err("a bug".into()) }
        });
        received.push(answer.await.received);
    }
    assert!(
        matches!(
            &received[..],
            [
                Received::Error(_),
                Received::Handled,
                Received::Duplicate { .. }
            ]
        ),
        "{received:?}"
    );
    let count = sqlx::query_scalar("SELECT count(*) FROM events");
    let count: i64 = count.fetch_one(store.pool()).await.unwrap();
    assert_eq!(count, 1);

    let request = delivery("two", r#"{"version": 5}"#);
    let receiver = versioned(store);
    let refused = receiver.receive_in(&transactions, &request, async |_, _, _| Ok(()));
    let refused = refused.await.received;
    assert!(
        matches!(&refused, Received::Store(error) if error.kind() == ErrorKind::Misconfigured),
        "{refused:?}"
    );
}
