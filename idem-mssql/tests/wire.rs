//! The state of connections, against a server that answers wrongly.

#[path = "support/fake.rs"]
mod fake;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use fake::{Answer, FakeServer, Welcome};
use idem_core::{
    BatchStore, ClaimRequest, Effect, Error, ErrorKind, Fingerprint, IdempotencyStore, Key, Result,
};
use idem_mssql::{
    ClaimMethod, Config, Isolation, Manager, MssqlStore, Pool, Transaction, Transactions,
    is_transaction_retryable,
};
use tokio::task::JoinSet;

/// With this configuration, the store does not read the server's version.
fn config() -> Config {
    Config::new().with_claim_method(ClaimMethod::InsertWhereNotExists)
}

fn hasty() -> Config {
    config().with_timeout(Duration::from_millis(200))
}

fn store(server: &FakeServer, config: Config) -> MssqlStore {
    let manager = Manager::from_url(&server.url()).unwrap();
    MssqlStore::with_config(Pool::builder(manager).build().unwrap(), config)
}

fn request(id: &str) -> ClaimRequest {
    let key = Key::new("tenant", "pay", id).unwrap();
    ClaimRequest::new(key, Fingerprint::raw("request"))
}

fn is(error: &Error, kind: ErrorKind, effect: Effect) {
    assert_eq!((error.kind(), error.effect()), (kind, effect), "{error:?}");
}

async fn connect_error(url: &str) -> Error {
    let connected: Result<_> = MssqlStore::connect(url, hasty()).await;
    connected.expect_err("no server answers")
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable() {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let error = connect_error(&format!("mssql://sa:secret@{address}?encrypt=off")).await;
    is(&error, ErrorKind::Unavailable, Effect::None);
}

#[tokio::test]
async fn a_server_that_accepts_and_closes_is_unavailable() {
    let server = FakeServer::start(Welcome::Close, &[]).await.unwrap();
    is(
        &connect_error(&server.url()).await,
        ErrorKind::Unavailable,
        Effect::None,
    );
}

#[tokio::test]
#[cfg(feature = "tls")]
async fn a_server_that_does_not_encrypt_is_refused() {
    let server = FakeServer::start(Welcome::Login, &[]).await.unwrap();
    let url = server.url().replace("encrypt=off", "encrypt=on");
    let error = connect_error(&url).await;
    is(&error, ErrorKind::Misconfigured, Effect::None);
    assert!(error.to_string().contains("does not encrypt"), "{error}");
    assert_eq!(server.requests(), 0);
}

#[tokio::test]
async fn a_server_that_says_nothing_is_given_up() {
    let server = FakeServer::start(Welcome::Stall, &[]).await.unwrap();
    is(
        &connect_error(&server.url()).await,
        ErrorKind::Unavailable,
        Effect::None,
    );
    let manager = Manager::from_url(&server.url()).unwrap();
    let connecting = manager.with_connect_timeout(Duration::from_millis(50));
    assert!(connecting.connect().await.is_err());
    server.until_open(0).await;
}

#[tokio::test]
async fn an_answer_that_does_not_come_may_hide_an_effect_of_a_write() {
    let server = FakeServer::start(Welcome::Login, &[Answer::Silence, Answer::Silence]);
    let server = server.await.unwrap();
    let store = store(&server, hasty());
    let error = store.delete_expired(1).await.unwrap_err();
    is(&error, ErrorKind::Unavailable, Effect::Unknown);
    let error = store.get(request("one").key()).await.unwrap_err();
    is(&error, ErrorKind::Unavailable, Effect::None);
    // Neither connection is open, nor used again.
    server.until_open(0).await;
    assert_eq!(store.delete_expired(1).await.unwrap(), 0);
    assert_eq!(server.connections(), 3);
}

#[tokio::test]
async fn a_connection_that_is_cut_may_hide_an_effect_of_a_write() {
    let server = FakeServer::start(Welcome::Login, &[Answer::Close]);
    let server = server.await.unwrap();
    let store = store(&server, config());
    let error = store.delete_expired(1).await.unwrap_err();
    is(&error, ErrorKind::Unavailable, Effect::Unknown);
    assert_eq!(store.delete_expired(1).await.unwrap(), 0);
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_half_read_answer_reaches_no_other_caller() {
    let server = FakeServer::start(Welcome::Login, &[Answer::Zero, Answer::HalfARow]);
    let server = server.await.unwrap();
    let store = store(&server, config());
    assert_eq!(store.delete_expired(1).await.unwrap(), 0);
    // Dropped while the rest of the answer is still to come.
    let dropped = tokio::time::timeout(Duration::from_millis(100), store.delete_expired(1)).await;
    assert!(dropped.is_err());
    assert_eq!((server.connections(), server.requests()), (1, 2));
    assert_eq!(store.delete_expired(1).await.unwrap(), 0);
    assert_eq!(server.connections(), 2);
    server.until_open(1).await;
}

#[tokio::test]
async fn an_error_in_full_leaves_the_connection_usable_and_a_fatal_one_does_not() {
    let server = FakeServer::start(
        Welcome::Login,
        &[Answer::Error(208, 16), Answer::Error(40197, 20)],
    );
    let server = server.await.unwrap();
    let store = store(&server, config());
    let error = store.delete_expired(1).await.unwrap_err();
    is(&error, ErrorKind::Misconfigured, Effect::None);
    let error = store.delete_expired(1).await.unwrap_err();
    is(&error, ErrorKind::Unavailable, Effect::Unknown);
    assert_eq!(server.connections(), 1);
    assert_eq!(store.delete_expired(1).await.unwrap(), 0);
    assert_eq!(server.connections(), 2);
}

/// The old primary is a secondary after a failover, which may still serve its connections.
#[tokio::test]
async fn no_call_after_a_refused_write_meets_a_connection_to_the_old_primary() {
    for number in [3906, 978, 979, 982] {
        let answers = [Answer::Error(number, 16)];
        let server = FakeServer::start(Welcome::Login, &answers).await.unwrap();
        let store = store(&server, config());
        let idle = tokio::join!(store.pool().get(), store.pool().get());
        drop((idle.0.unwrap(), idle.1.unwrap()));
        let error = store.delete_expired(1).await.unwrap_err();
        is(&error, ErrorKind::Unavailable, Effect::None);
        server.until_open(0).await;
        assert_eq!(store.delete_expired(1).await.unwrap(), 0);
        assert_eq!(server.connections(), 3, "{number}");
    }
}

#[tokio::test]
async fn an_unknown_error_is_no_success() {
    let server = FakeServer::start(Welcome::Login, &[Answer::Error(12345, 16)]);
    let store = store(&server.await.unwrap(), config());
    let error = store.delete_expired(1).await.unwrap_err();
    is(&error, ErrorKind::Other, Effect::Unknown);
}

#[tokio::test]
async fn a_statement_is_sent_again_after_a_deadlock_within_a_bound() {
    let deadlocks = [Answer::Error(1205, 13); 20];
    let server = FakeServer::start(Welcome::Login, &deadlocks[..2]);
    let server = server.await.unwrap();
    assert_eq!(store(&server, config()).delete_expired(1).await.unwrap(), 0);
    assert_eq!((server.requests(), server.connections()), (3, 1));

    let server = FakeServer::start(Welcome::Login, &deadlocks);
    let server = server.await.unwrap();
    let error = store(&server, config())
        .delete_expired(1)
        .await
        .unwrap_err();
    is(&error, ErrorKind::Contention, Effect::None);
    assert!(is_transaction_retryable(&error));
    assert_eq!(server.requests(), 6);
}

/// The locks of a claim by `MERGE`.
const RANGE: &str = "WITH (HOLDLOCK)";
const ROWS: &str = "WITH (UPDLOCK, ROWLOCK)";

/// An open transaction holds no range; a claim that has not got one goes by rows, and waits again
/// for its own key only.
#[tokio::test]
async fn a_claim_locks_its_range_and_once_that_is_not_free_rows() {
    let range_then_rows = |rows: usize| [&[RANGE][..], &vec![ROWS; rows]].concat();
    for (method, number, locks) in [
        (ClaimMethod::Merge, 1222, range_then_rows(1)),
        (ClaimMethod::Merge, 1205, range_then_rows(5)),
        // Another claim has inserted the key, and holds nothing any more.
        (ClaimMethod::Merge, 2627, vec![RANGE; 16]),
        (ClaimMethod::MergeWithRowLocks, 1222, vec![ROWS]),
    ] {
        let config = Config::new().with_claim_method(method);
        let answers = [Answer::Error(number, 14); 20];
        let server = FakeServer::start(Welcome::Login, &answers).await.unwrap();
        let store = store(&server, config.clone().with_batching(false));
        let error = store.claim(&request("one")).await.unwrap_err();
        is(&error, ErrorKind::Contention, Effect::None);
        assert_eq!(server.having(&[RANGE, ROWS]), locks, "{number}");

        // A batch, whose claims are then sent alone.
        let nothing = [answers[0], Answer::Nothing];
        let server = FakeServer::start(Welcome::Login, &nothing).await.unwrap();
        let store = self::store(&server, config);
        for claimed in store.claim_many(&[request("one"), request("two")]).await {
            assert!(claimed.is_err(), "the server gives no record");
        }
        let mut batches = locks;
        batches.dedup();
        let sent = server.having(&[RANGE, ROWS]);
        assert_eq!(sent[..batches.len()], batches, "{number}");
        let joins = server.having(&["INNER JOIN"]).concat();
        assert_eq!(joins, "INNER JOIN".repeat(batches.len()), "{number}");
    }
}

#[tokio::test]
async fn a_claim_in_a_transaction_locks_no_range() {
    let answers = [Answer::Zero, Answer::Nothing, Answer::Error(1222, 16)];
    let server = FakeServer::start(Welcome::Login, &answers).await.unwrap();
    let store = store(&server, Config::new().with_claim_method(ClaimMethod::Merge));
    let mut attempts = Transactions::new(&store).attempts();
    let mut transaction = attempts.begin().await.unwrap();
    let claimed = store.claim_in(&mut transaction, &request("one")).await;
    is(&claimed.unwrap_err(), ErrorKind::Contention, Effect::None);
    assert_eq!(server.having(&[RANGE, ROWS]), ["", "", ROWS]);
}

#[tokio::test]
async fn a_lost_race_is_repeated_within_a_bound() {
    let server = FakeServer::start(Welcome::Login, &[Answer::Error(2627, 14); 40]);
    let server = server.await.unwrap();
    let request = request("one");
    let error = store(&server, config()).claim(&request).await.unwrap_err();
    is(&error, ErrorKind::Contention, Effect::None);
    assert_eq!((server.requests(), server.connections()), (16, 1));
}

#[tokio::test]
async fn a_lost_race_in_a_transaction_repeats_the_transaction() {
    // The session's beginning, the server's version, and the claim.
    let answers = [Answer::Zero, Answer::Nothing, Answer::Error(2627, 14)];
    let server = FakeServer::start(Welcome::Login, &answers).await.unwrap();
    let store = store(&server, config());
    let mut attempts = Transactions::new(&store).attempts();
    let mut transaction = attempts.begin().await.unwrap();
    let request = request("one");
    let claimed = store.claim_in(&mut transaction, &request).await;
    let claimed = claimed.map(drop);
    let error = claimed.as_ref().unwrap_err();
    assert!(is_transaction_retryable(error));
    assert!(
        !format!("{error:?} {error}").contains("marked"),
        "the text of a duplicate shows its key: {error:?}"
    );
    assert!(attempts.finish(transaction, claimed).await.is_none());
    // An error inside of a transaction costs the connection.
    server.until_open(0).await;
    assert!(attempts.begin().await.is_ok());
}

#[tokio::test]
async fn a_locked_key_is_contention_and_waited_for_once() {
    // However long it takes: after 100 ms one claim waits for the lock again.
    let answers = [Answer::Error(1222, 16); 10_000];
    let server = FakeServer::start(Welcome::Login, &answers).await.unwrap();
    let store = store(&server, config());
    let request = request("one");
    let contended = || {
        let (store, request) = (store.clone(), request.clone());
        async move {
            let error = store.claim(&request).await.unwrap_err();
            is(&error, ErrorKind::Contention, Effect::None);
            assert!(is_transaction_retryable(&error));
        }
    };
    // One statement that waits, and one read of the committed record.
    for requests in [1, 2] {
        contended().await;
        assert_eq!(server.requests(), requests);
    }
    assert_eq!(server.connections(), 1);
    let begun = std::time::Instant::now();
    for _ in 0..3 {
        (0..64)
            .map(|_| contended())
            .collect::<JoinSet<_>>()
            .join_all()
            .await;
    }
    // The others only read. A key counts as locked for 100 ms and more after each wait.
    let waits = server.having(&["INSERT"]).concat().len() / "INSERT".len();
    let most = 2 + begun.elapsed().as_millis() / 50;
    assert!(waits as u128 <= most, "{waits} and not {most}");
    assert!(server.requests() <= waits + 1 + 3 * 64);
}

#[tokio::test]
async fn the_maximum_timeouts_are_no_panic() {
    let server = FakeServer::start(Welcome::Login, &[]).await.unwrap();
    let manager = Manager::from_url(&server.url()).unwrap();
    let pool = Pool::builder(manager.with_connect_timeout(Duration::MAX));
    let pool = pool.build().unwrap();
    let config = config().with_timeout(Duration::MAX);
    let store = MssqlStore::with_config(pool, config);
    assert_eq!(store.delete_expired(1).await.unwrap(), 0);
    let transactions = Transactions::new(&store).with_limit(Duration::MAX);
    let transaction = transactions.attempts().begin().await.unwrap();
    transaction.commit().await.unwrap();
}

#[tokio::test]
async fn a_store_that_is_patient_makes_the_driver_so() {
    let answers = [Answer::Zero, Answer::Silence];
    let server = FakeServer::start(Welcome::Login, &answers).await.unwrap();
    let url = server.url();
    let mut driver = idem_mssql::tiberius::Config::new();
    driver.host("127.0.0.1");
    driver.port(server.address.port());
    driver.authentication(idem_mssql::tiberius::AuthMethod::sql_server("sa", "secret"));
    driver.encryption(idem_mssql::tiberius::EncryptionLevel::NotSupported);
    driver.command_timeout(Some(Duration::from_millis(50)));
    let pool = Pool::builder(Manager::new(driver)).build().unwrap();
    // The store does not keep a connection that was opened before it.
    drop(pool.get().await.unwrap());
    let store = MssqlStore::with_config(pool, config().with_timeout(Duration::from_millis(900)));
    assert_eq!(store.delete_expired(1).await.unwrap(), 0, "{url}");
    assert_eq!(server.connections(), 2);
    let begun = std::time::Instant::now();
    let error = store.delete_expired(1).await.unwrap_err();
    is(&error, ErrorKind::Unavailable, Effect::Unknown);
    assert!(begun.elapsed() >= Duration::from_millis(800), "{error}");
}

#[tokio::test]
async fn a_transaction_that_is_left_closes_its_connection() {
    let server = FakeServer::start(Welcome::Login, &[]).await.unwrap();
    let store = store(&server, config());
    let transaction = Transaction::begin(store.pool(), Isolation::Snapshot).await;
    let transaction = transaction.unwrap();
    server.until_open(1).await;
    drop(transaction);
    server.until_open(0).await;
    let transaction = Transaction::begin(store.pool(), Isolation::Snapshot).await;
    transaction.unwrap().commit().await.unwrap();
    assert_eq!(store.delete_expired(1).await.unwrap(), 0);
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_client_is_sent_elsewhere_and_not_round_in_circles() {
    let elsewhere = FakeServer::start(Welcome::Login, &[]).await.unwrap();
    let server = FakeServer::start(Welcome::Route(elsewhere.address), &[]);
    let server = server.await.unwrap();
    assert_eq!(store(&server, config()).delete_expired(1).await.unwrap(), 0);
    assert_eq!((server.requests(), elsewhere.requests()), (0, 1));

    let itself = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = FakeServer::start(Welcome::Route(itself), &[])
        .await
        .unwrap();
    let error = store(&server, config())
        .delete_expired(1)
        .await
        .unwrap_err();
    is(&error, ErrorKind::Unavailable, Effect::None);
    assert_eq!(server.connections(), 4);
}

#[tokio::test]
async fn nothing_shows_the_password() {
    let server = FakeServer::start(Welcome::Login, &[Answer::Error(18456, 14)]);
    let server = server.await.unwrap();
    let store = store(&server, config());
    let error = store.delete_expired(1).await.unwrap_err();
    let connection = store.pool().get().await.unwrap();
    let shown = format!(
        "{store:?} {:?} {:?} {connection:?} {error:?} {error}",
        store.pool(),
        store.pool().manager()
    );
    assert!(!shown.contains("secret"), "{shown}");
}
