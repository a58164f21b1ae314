//! A payments endpoint whose rows commit with their answers: the handler and its server.

use axum::http::request::Parts;
use axum::http::{Request, StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::post;
use axum::{Json, Router};
use idem_core::{BoxError, Idempotency};
use idem_examples::http::{Client, serve};
use idem_http::{HandlerError, HttpPolicy, IdempotencyLayer, Tx};
use idem_sqlite::{Config, SqliteStore, Transactions};
use idem_sqlite::{Transaction, sqlx};

/// `POST /payments`: a payment of some cents.
async fn pay(
    mut tx: Tx<Transaction>,
    Json(cents): Json<i64>,
) -> Result<impl IntoResponse, HandlerError> {
    let insert = sqlx::query("INSERT INTO payments (cents) VALUES (?)").bind(cents);
    let payment = insert.execute(&mut **tx).await?.last_insert_rowid();
    Ok((StatusCode::CREATED, Json(payment)))
}

/// The server: one layer, one route.
fn app(store: &SqliteStore) -> Result<Router, BoxError> {
    let layer = IdempotencyLayer::new(Idempotency::new(store.clone()), |parts: &Parts| {
        // Replaces a lookup of the API key.
        let token = parts.headers.get(header::AUTHORIZATION)?.to_str().ok()?;
        token.strip_prefix("Bearer ").map(str::to_owned)
    });
    let layer = layer
        .with_policy(HttpPolicy::ietf().with_operation("payments.create"))
        .in_transactions(Transactions::new(store));
    layer.verify()?;
    Ok(Router::new().route("/payments", post(pay).layer(layer)))
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite:{}/shop.db", folder.path().display());
    let store = SqliteStore::connect(&url, Config::new()).await?;
    store.migrate().await?;
    let table = "CREATE TABLE payments (id INTEGER PRIMARY KEY, cents INTEGER NOT NULL)";
    sqlx::query(table).execute(store.pool()).await?;
    let url = format!("http://{}/payments", serve(app(&store)?).await?);
    let client = Client::default();
    for number in 0..20 {
        for _ in 0..4 {
            let request = Request::post(&url)
                .header("authorization", "Bearer customer-7")
                .header("content-type", "application/json")
                .header("idempotency-key", format!("\"payment-{number}\""))
                .body("1250")?;
            let answer = client.send(request).await?;
            println!("{} {:?}", answer.status(), answer.body());
        }
    }
    let rows = sqlx::query_scalar("SELECT count(*) FROM payments");
    let rows: i64 = rows.fetch_one(store.pool()).await?;
    match rows {
        20 => println!("Every payment was made exactly once."),
        _ => return Err(format!("{rows} payments for 20 keys").into()),
    }
    Ok(())
}
