//! Answers that commit together with the handler's rows.

use std::error::Error as StdError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use futures_util::stream;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use idem_core::engine::Transactional;
use idem_core::{
    Claim, ClaimOutcome, ClaimRequest, Effect, Error, ErrorKind, Idempotency, IdempotencyStore,
    Policy, Response as Stored, Result, Work,
};
use idem_http::{
    HandlerError, HttpPolicy, IdempotencyLayer, NoTransaction, NotStored, ProblemType, Tx, to_http,
};
use idem_sqlite::{Config, SqliteStore, Transactions};
use sqlx::SqlitePool;
use tokio::sync::Semaphore;

use crate::store::FailingStore;
use crate::support::{Answer, App, layer_on, post, request, until, without};

type Sqlite = idem_sqlite::Transaction;

/// A database with a table of payments.
struct Shop {
    store: SqliteStore,
    /// Reads beside the store's pool, which a transaction occupies.
    reader: SqlitePool,
    _folder: tempfile::TempDir,
}

impl Shop {
    async fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}/shop.db", folder.path().display());
        let store = SqliteStore::connect(&url, Config::new()).await.unwrap();
        store.migrate().await.unwrap();
        let table = sqlx::query("CREATE TABLE payments (cents INTEGER NOT NULL)");
        table.execute(store.pool()).await.unwrap();
        Self {
            store,
            reader: SqlitePool::connect(&url).await.unwrap(),
            _folder: folder,
        }
    }

    fn transactions(&self) -> Transactions {
        Transactions::new(&self.store)
    }

    fn idempotency(&self) -> Idempotency {
        Idempotency::new(self.store.clone())
    }

    fn layer(&self) -> IdempotencyLayer {
        layer_on(self.idempotency()).in_transactions(self.transactions())
    }

    async fn payments(&self) -> i64 {
        let count = sqlx::query_scalar("SELECT count(*) FROM payments");
        count.fetch_one(&self.reader).await.unwrap()
    }
}

async fn insert(tx: &mut Sqlite) -> sqlx::Result<()> {
    let insert = sqlx::query("INSERT INTO payments VALUES (1250)");
    insert.execute(&mut **tx).await.map(drop)
}

fn take(request: &Request) -> Tx<Sqlite> {
    Tx::take(request.extensions()).unwrap()
}

/// Writes a row and answers as the path says.
async fn pay(request: Request) -> Response {
    let path = request.uri().path().to_owned();
    if path == "/untouched" {
        return "nothing to write".into_response();
    }
    let mut tx = take(&request);
    insert(&mut tx).await.unwrap();
    let answer = |status: u16, body: Body| {
        let mut response = Response::new(body);
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        response
    };
    let events = |status| {
        let mut response = answer(status, "data: 1\n\n".into());
        let kind = "text/event-stream".parse().unwrap();
        response.headers_mut().insert(CONTENT_TYPE, kind);
        response
    };
    match path.as_str() {
        "/created" => answer(201, "receipt".into()),
        "/refused" => answer(422, "no".into()),
        "/failed" => answer(503, "later".into()),
        "/switching" => answer(101, Body::empty()),
        "/events" => events(200),
        "/failed-events" => events(503),
        "/marked" => (Extension(NotStored), "secret").into_response(),
        "/marked-refused" => (StatusCode::CONFLICT, Extension(NotStored), "no").into_response(),
        "/large" => answer(200, vec![b'x'; 2000].into()),
        "/broken" => {
            let pieces = [Ok("begun"), Err("gone")];
            answer(200, Body::from_stream(stream::iter(pieces)))
        }
        "/error" => failed("a bug"),
        "/twice" => {
            let again = Tx::<Sqlite>::take(request.extensions()).unwrap_err();
            assert_eq!(again, NoTransaction::Taken);
            answer(500, again.to_string().into())
        }
        path => panic!("unknown path {path}"),
    }
}

/// Answers `500` with this error.
fn failed(error: impl Into<HandlerError>) -> Response {
    let mut response = StatusCode::INTERNAL_SERVER_ERROR.into_response();
    response.extensions_mut().insert(error.into());
    response
}

#[tokio::test]
async fn an_answer_and_its_rows_are_there_together_or_not_at_all() {
    let shop = Shop::open().await;
    let policy = HttpPolicy::default().with_max_response_bytes(1000);
    let app = App::new(shop.layer().with_policy(policy), pay);
    let refused = 0;
    for (path, status, rows) in [
        ("/created", 201, 1),
        ("/refused", 422, 1),
        ("/failed", 503, 0),
        ("/switching", refused, 0),
        ("/events", refused, 0),
        ("/failed-events", 503, 0),
        ("/marked", refused, 0),
        ("/marked-refused", 409, 0),
        ("/large", refused, 0),
        ("/broken", refused, 0),
        ("/error", 500, 0),
        ("/twice", 500, 0),
    ] {
        let (before, runs) = (shop.payments().await, app.runs());
        let first = app.send(request("POST", path, path, "{}")).await;
        if status == refused {
            first.problem(ProblemType::Misconfigured);
        } else {
            assert_eq!(first.status, status, "{path}");
        }
        assert_eq!(shop.payments().await - before, rows, "{path}");
        let again = app.send(request("POST", path, path, "{}")).await;
        assert_eq!(again.status, first.status, "{path}");
        assert_eq!(again.body, first.body, "{path}");
        assert_eq!(again.is_replayed(), rows == 1, "{path}");
        assert_eq!(shop.payments().await - before, rows, "{path}");
        assert_eq!(app.runs() - runs, if rows == 1 { 1 } else { 2 }, "{path}");
    }
}

#[tokio::test]
async fn a_handler_without_the_transaction_has_its_answer_stored() {
    let shop = Shop::open().await;
    let app = App::new(shop.layer(), pay);
    for is_replayed in [false, true] {
        let answer = app.send(request("POST", "/untouched", "a", "{}")).await;
        assert_eq!(answer.text(), "nothing to write");
        assert_eq!(answer.is_replayed(), is_replayed);
    }
    let unkeyed = app.send(without(post("b", "{}"), "idempotency-key"));
    unkeyed.await.problem(ProblemType::KeyMissing);
    assert_eq!(app.runs(), 1);
}

/// Writes a row, and loses this many races before it answers.
fn losing(layer: IdempotencyLayer, races: usize) -> App {
    let tries = Arc::new(AtomicUsize::new(0));
    App::new(layer, move |request: Request| {
        let tries = Arc::clone(&tries);
        async move {
            let mut tx = take(&request);
            insert(&mut tx).await.unwrap();
            match tries.fetch_add(1, Ordering::SeqCst) < races {
                true => failed(lost_race()),
                false => StatusCode::CREATED.into_response(),
            }
        }
    })
}

fn lost_race() -> Error {
    Error::new(ErrorKind::Contention, Effect::None, "lost a race")
}

#[tokio::test]
async fn a_request_is_handled_again_after_an_error_that_calls_for_it() {
    let shop = Shop::open().await;
    let app = losing(shop.layer(), 2);
    let answer = app.send(post("a", "{}")).await;
    assert_eq!(answer.status, StatusCode::CREATED);
    assert_eq!((app.runs(), shop.payments().await), (3, 1));
    assert!(app.send(post("a", "{}")).await.is_replayed());
}

/// The engine returns its first error, the handler's, when the last answer was not committed.
#[tokio::test]
async fn an_answer_that_is_never_committed_is_not_sent() {
    let shop = Shop::open().await;
    let short = Policy::default().with_retry_timeout(Duration::from_secs(2));
    let layer = layer_on(shop.idempotency().with_policy(short));
    let app = losing(
        layer.in_transactions(Commits::new(&shop, Commit::Refused)),
        1,
    );
    let answer = app.send(post("a", "{}")).await;
    answer.problem(ProblemType::StoreUnavailable);
    assert!(app.runs() > 1);
    assert_eq!(shop.payments().await, 0);
}

#[tokio::test]
async fn an_answer_beside_a_task_that_keeps_the_transaction_is_not_sent() {
    let shop = Shop::open().await;
    let gate = Arc::new(Semaphore::new(0));
    let waits = Arc::clone(&gate);
    let app = App::new(shop.layer(), move |request: Request| {
        let waits = Arc::clone(&waits);
        async move {
            let mut tx = take(&request);
            insert(&mut tx).await.unwrap();
            tokio::spawn(async move {
                waits.acquire().await.unwrap().forget();
                drop(tx);
            });
            StatusCode::CREATED
        }
    });
    for runs in [1, 2] {
        let answer = app.send(post("a", "{}")).await;
        answer.problem(ProblemType::Misconfigured);
        assert_eq!((app.runs(), shop.payments().await), (runs, 0));
        gate.add_permits(1);
    }
}

/// Writes a row, and answers once the gate lets it.
fn gated(layer: IdempotencyLayer, gate: &Arc<Semaphore>) -> App {
    let gate = Arc::clone(gate);
    App::new(layer, move |request: Request| {
        let gate = Arc::clone(&gate);
        async move {
            let mut tx = take(&request);
            insert(&mut tx).await.unwrap();
            gate.acquire().await.unwrap().forget();
            StatusCode::CREATED
        }
    })
}

fn spawned(app: &App) -> tokio::task::JoinHandle<Answer> {
    let app = app.clone();
    tokio::spawn(async move { app.send(post("a", "{}")).await })
}

#[tokio::test]
async fn a_duplicate_beside_an_open_transaction_is_refused_or_waits() {
    for waits in [false, true] {
        let shop = Shop::open().await;
        let gate = Arc::new(Semaphore::new(0));
        let wait = Duration::from_secs(if waits { 60 } else { 0 });
        let policy = HttpPolicy::default().with_wait(wait);
        let app = gated(shop.layer().with_policy(policy), &gate);
        let first = spawned(&app);
        app.until_runs(1).await;
        let second = spawned(&app);
        if !waits {
            second.await.unwrap().problem(ProblemType::RequestInFlight);
            gate.add_permits(1);
        } else {
            gate.add_permits(1);
            assert!(second.await.unwrap().is_replayed());
        }
        assert_eq!(first.await.unwrap().status, StatusCode::CREATED);
        assert_eq!((app.runs(), shop.payments().await), (1, 1));
    }
}

#[tokio::test]
async fn a_client_that_hangs_up_while_the_commit_waits_finds_its_answer_later() {
    let shop = Shop::open().await;
    let commits = Commits::new(&shop, Commit::Waits(Arc::new(Semaphore::new(0))));
    let patient = Policy::default().with_retry_timeout(Duration::from_secs(240));
    let idempotency = shop.idempotency().with_policy(patient);
    let layer = layer_on(idempotency).in_transactions(commits.clone());
    let app = App::new(layer, pay);
    let send = || request("POST", "/created", "a", "{}");
    let first = tokio::spawn({
        let app = app.clone();
        async move { app.send(send()).await }
    });
    until(async || commits.is_committing()).await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    assert_eq!(shop.payments().await, 0);
    if let Commit::Waits(gate) = &commits.how {
        gate.add_permits(1);
    }
    until(async || shop.payments().await == 1).await;
    assert!(app.send(send()).await.is_replayed());
    assert_eq!((app.runs(), shop.payments().await), (1, 1));
}

#[tokio::test]
async fn an_unknown_commit_is_never_answered_as_a_success() {
    let shop = Shop::open().await;
    let store = FailingStore::new(ErrorKind::Unavailable);
    let short = Duration::from_secs(4);
    let policy = Policy::default()
        .with_lease(short)
        .with_retry_timeout(short);
    let commits = Commits::new(&shop, Commit::Lost(store.clone()));
    let idempotency = Idempotency::new(store).with_policy(policy);
    let app = App::new(layer_on(idempotency).in_transactions(commits), pay);
    let answer = app.send(request("POST", "/created", "a", "{}")).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer.header("retry-after"), Some("1"));
    answer.problem(ProblemType::OutcomeUnknown);
}

#[tokio::test]
async fn a_layer_names_transactions_of_another_store() {
    let (shop, other) = (Shop::open().await, Shop::open().await);
    let layer = layer_on(shop.idempotency()).in_transactions(other.transactions());
    assert_eq!(layer.verify().unwrap_err().kind(), ErrorKind::Misconfigured);
    let answer = App::new(layer, pay).send(post("a", "{}")).await;
    answer.problem(ProblemType::Misconfigured);
    assert!(shop.layer().verify().is_ok());
}

#[tokio::test]
async fn a_client_gets_what_the_handler_has_committed() {
    let shop = Shop::open().await;
    let transactions = shop.transactions();
    let app = App::new(layer_on(shop.idempotency()), move |request: Request| {
        let transactions = transactions.clone();
        async move {
            let work = request.extensions().get::<Work>().unwrap().clone();
            let path = request.uri().path().to_owned();
            if path == "/json" {
                let receipt = work.commit(&transactions, async |mut tx| {
                    insert(&mut tx).await?;
                    Ok("receipt".to_owned())
                });
                return Json(receipt.await.unwrap()).into_response();
            }
            let sealed = work.commit_response(&transactions, async |mut tx| {
                insert(&mut tx).await?;
                Ok(Stored::new(201, "receipt"))
            });
            let sealed: Response = to_http(sealed.await.unwrap()).unwrap();
            match path.as_str() {
                "/same" => sealed,
                "/other" => "another".into_response(),
                _ => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
            }
        }
    });
    for (number, (path, status, text)) in [
        ("/json", 200, "\"receipt\""),
        ("/same", 201, "receipt"),
        ("/other", 201, "receipt"),
        ("/failed", 201, "receipt"),
    ]
    .into_iter()
    .enumerate()
    {
        for is_replayed in [false, true] {
            let answer = app.send(request("POST", path, path, "{}")).await;
            assert_eq!(
                (answer.status.as_u16(), answer.text()),
                (status, text),
                "{path}"
            );
            assert_eq!(answer.is_replayed(), is_replayed, "{path}");
        }
        assert_eq!(app.runs(), number + 1, "{path}");
    }
    assert_eq!(shop.payments().await, 4);
}

#[tokio::test]
async fn a_handler_that_forgets_to_commit_is_refused_at_its_first_call() {
    let shop = Shop::open().await;
    let policy = Policy::default().with_transactions_required();
    let idempotency = shop.idempotency().with_policy(policy);
    let transactions = shop.transactions();
    let forgets = App::new(layer_on(idempotency.clone()), |_| async { "receipt" });
    for _ in 0..2 {
        let answer = forgets.send(post("a", "{}")).await;
        answer.problem(ProblemType::ResponseNotStored);
    }
    assert_eq!(forgets.runs(), 1);
    let commits = App::new(layer_on(idempotency.clone()), move |request: Request| {
        let transactions = transactions.clone();
        async move {
            let work = request.extensions().get::<Work>().unwrap().clone();
            let receipt = work.commit(&transactions, async |_| Ok("receipt".to_owned()));
            Json(receipt.await.unwrap())
        }
    });
    let transactions = shop.transactions();
    let lends = App::new(layer_on(idempotency).in_transactions(transactions), pay);
    let created = || request("POST", "/created", "c", "{}");
    for is_replayed in [false, true] {
        assert_eq!(
            commits.send(post("b", "{}")).await.is_replayed(),
            is_replayed
        );
        assert_eq!(lends.send(created()).await.is_replayed(), is_replayed);
    }
    assert_eq!((commits.runs(), lends.runs()), (1, 1));
}

#[cfg(feature = "axum")]
#[tokio::test]
async fn axum_extracts_the_transaction() {
    use axum::Router;
    use axum::routing::post as route;

    async fn handler(mut tx: Tx<Sqlite>) -> Result<StatusCode, HandlerError> {
        insert(&mut tx).await?;
        Ok(StatusCode::CREATED)
    }
    async fn greedy(_: Tx<Sqlite>, _: Tx<Sqlite>) -> StatusCode {
        StatusCode::CREATED
    }
    let shop = Shop::open().await;
    let router = Router::new()
        .route("/orders", route(handler).layer(shop.layer()))
        .route("/greedy", route(greedy).layer(shop.layer()))
        .route("/bare", route(handler));
    for (path, status) in [("/orders", 201), ("/greedy", 500), ("/bare", 500)] {
        let answered = tower::ServiceExt::oneshot(router.clone(), request("POST", path, path, ""));
        assert_eq!(answered.await.unwrap().status(), status, "{path}");
    }
    assert_eq!(shop.payments().await, 1);
}

/// Transactions whose commit does not go as usual.
#[derive(Debug, Clone)]
struct Commits {
    inner: Transactions,
    how: Commit,
    is_committing: Arc<Mutex<bool>>,
}

#[derive(Debug, Clone)]
enum Commit {
    /// Until there is a permit.
    Waits(Arc<Semaphore>),
    /// The answer is lost, and then the store.
    Lost(FailingStore),
    /// It loses a race.
    Refused,
}

impl Commits {
    fn new(shop: &Shop, how: Commit) -> Self {
        Self {
            inner: shop.transactions(),
            how,
            is_committing: Arc::default(),
        }
    }

    fn is_committing(&self) -> bool {
        *self
            .is_committing
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Transactional for Commits {
    type Transaction = Sqlite;

    fn is_of(&self, _: &dyn IdempotencyStore) -> bool {
        true
    }

    async fn begin(&self) -> Result<Sqlite> {
        self.inner.begin().await
    }

    async fn claim(
        &self,
        transaction: &mut Sqlite,
        request: &ClaimRequest,
    ) -> Result<ClaimOutcome> {
        self.inner.claim(transaction, request).await
    }

    async fn seal(
        &self,
        transaction: &mut Sqlite,
        claim: &Claim,
        response: &Stored,
        retention: Duration,
    ) -> Result<()> {
        self.inner
            .seal(transaction, claim, response, retention)
            .await
    }

    async fn commit(&self, transaction: Sqlite) -> Result<()> {
        *self.is_committing.lock().unwrap() = true;
        match &self.how {
            Commit::Waits(gate) => {
                gate.acquire().await.unwrap().forget();
                self.inner.commit(transaction).await
            }
            Commit::Lost(store) => {
                store.set_fails(true);
                Err(Error::new(
                    ErrorKind::Unavailable,
                    Effect::Unknown,
                    "silence",
                ))
            }
            Commit::Refused => {
                self.inner.roll_back(transaction).await;
                Err(lost_race())
            }
        }
    }

    async fn roll_back(&self, transaction: Sqlite) {
        self.inner.roll_back(transaction).await;
    }

    fn is_retryable(&self, error: &(dyn StdError + 'static)) -> bool {
        self.inner.is_retryable(error)
    }
}
