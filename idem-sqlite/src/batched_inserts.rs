//! Claims of keys that have no row, many in one statement.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use idem_core::{ClaimOutcome, Result};
use idem_sql::batch::Item as _;
use idem_sql::cells::{Columns, Row};
use idem_sql::parameters::Value;

use crate::batch::{Answers, Claim};
use crate::operations::Operations;
use crate::session::Session;
use crate::sql::INSERT_VALUES;
use crate::statements::INSERTED_AT_MOST;

impl Operations {
    /// Answers the claims whose keys have no row: one statement, and outside of a transaction one
    /// commit, for each [`INSERTED_AT_MOST`] of them. On a connection of the store's own nothing
    /// happens while the write lock is taken.
    ///
    /// An inserted claim is won. The statement writes no row that exists already, whatever its
    /// state, and leaves it to the statements that decide.
    pub(crate) async fn insert_many(
        &self,
        session: &mut Session<'_>,
        claims: &[&Claim<'_>],
        answers: &mut Answers<ClaimOutcome>,
    ) -> Result<()> {
        for claims in claims.chunks(INSERTED_AT_MOST) {
            let mut sent = Vec::with_capacity(claims.len());
            // The attempt id of a row says which claim it is; of two claims of one attempt the
            // second is left out.
            let mut by_attempt = HashMap::with_capacity(claims.len());
            for claim in claims {
                let attempt = claim.1.request.attempt();
                if let Entry::Vacant(slot) = by_attempt.entry(*attempt.as_bytes()) {
                    slot.insert(*claim);
                    sent.push(*claim);
                }
            }
            let Some(rows) = self.inserted_rows(session, &sent).await? else {
                return Ok(());
            };
            for row in &rows {
                let row = Columns::of(row);
                if let Some((position, params)) = by_attempt.get(row.bytes(0)?) {
                    self.estimator.record(params.key(), false);
                    let claim = params.inserted(row.number(1)?);
                    answers[*position] = Some(Ok(ClaimOutcome::Acquired(claim)));
                }
            }
        }
        Ok(())
    }

    /// Inserts the same on a connection of the store's own; an error is the answer to all claims.
    pub(crate) async fn insert_at_once(
        &self,
        session: &mut Session<'_>,
        claims: &[&Claim<'_>],
        answers: &mut Answers<ClaimOutcome>,
    ) {
        let inserted = self.insert_many(session, claims, answers);
        if let Err(error) = inserted.await {
            let each = error.for_each_item();
            for (position, _) in claims {
                answers[*position].get_or_insert_with(|| Err(each()));
            }
        }
    }

    async fn inserted_rows(
        &self,
        session: &mut Session<'_>,
        claims: &[&Claim<'_>],
    ) -> Result<Option<Vec<Row>>> {
        let (statement, size) = self.sql.insert_many(claims.len());
        let values: Vec<_> = claims.iter().map(|(_, params)| params.values()).collect();
        let mut bound = Vec::with_capacity(size * INSERT_VALUES.len());
        for values in &values {
            bound.extend(values.of(INSERT_VALUES)?);
        }
        // The other rows are no claims.
        bound.resize(size * INSERT_VALUES.len(), Value::OptionalText(None));
        let statement = statement.bound(bound);
        match session {
            Session::Store(..) => session.write_at_once(statement).await,
            Session::Transaction(_) => session.write(statement).await.map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use idem_core::{
        AttemptId, BatchStore, ClaimRequest, Fingerprint, IdempotencyStore, Key, Limits, Metadata,
        Response, StalePolicy,
    };
    use idem_sql::claim::ClaimParams;
    use sqlx::Connection;
    use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};

    use super::*;
    use crate::{Config, SqliteStore};

    const HOUR: Duration = Duration::from_secs(3600);

    async fn store() -> (tempfile::TempDir, SqliteStore) {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}/idem.db", folder.path().display());
        let store = SqliteStore::connect(&url, Config::new()).await.unwrap();
        store.migrate().await.unwrap();
        (folder, store)
    }

    fn request(id: &str) -> ClaimRequest {
        let key = Key::new("tenant", "pay", id).unwrap();
        ClaimRequest::new(key, Fingerprint::raw("request"))
    }

    /// Waits until nobody uses a connection of the pool: nothing is inserted before, and a
    /// connection comes back a moment after its use.
    async fn until_idle(store: &SqliteStore) {
        while store.pool().num_idle() < store.pool().size() as usize {
            tokio::task::yield_now().await;
        }
    }

    async fn inserted(store: &SqliteStore, requests: &[ClaimRequest]) -> Vec<Option<&'static str>> {
        let mut answers: Answers<_> = requests.iter().map(|_| None).collect();
        let params = |request| ClaimParams::new(request, &Limits::DEFAULT).unwrap();
        let claims: Vec<_> = requests.iter().map(params).enumerate().collect();
        let all: Vec<_> = claims.iter().collect();
        until_idle(store).await;
        let operations = &store.operations;
        operations
            .insert_at_once(&mut store.session(), &all, &mut answers)
            .await;
        let name =
            |answer: Option<Result<ClaimOutcome>>| answer.map(|returned| returned.unwrap().name());
        answers.into_iter().map(name).collect()
    }

    #[tokio::test]
    async fn a_key_with_a_row_is_left_whatever_its_state() {
        let (_folder, store) = store().await;
        let ClaimOutcome::Acquired(done) = store.claim(&request("done")).await.unwrap() else {
            panic!("a fresh key")
        };
        let ClaimOutcome::Acquired(released) = store.claim(&request("released")).await.unwrap()
        else {
            panic!("a fresh key")
        };
        let response = Response::new(200, "done");
        store.complete(&done, &response, HOUR).await.unwrap();
        store.release(&released).await.unwrap();
        let ids = ["done", "one", "released", "two"];
        let requests = ids.map(request);
        let returned = inserted(&store, &requests).await;
        assert_eq!(returned, [None, Some("acquired"), None, Some("acquired")]);
        let returned = store.claim_many(&requests).await;
        let returned: Vec<_> = returned
            .into_iter()
            .map(|returned| returned.unwrap().name())
            .collect();
        // The attempts are the same as before.
        assert_eq!(returned, ["completed", "acquired", "acquired", "acquired"]);
    }

    /// Returns the row of this key, with its instants relative to its beginning.
    async fn row(store: &SqliteStore, id: &str) -> String {
        let query = "SELECT json_array(scope, operation, token - created_at, lease_ends_at - created_at,
            expires_at - created_at, purge_at - created_at, sealed_at, sweep_at - created_at, attempts,
            state, hex(fingerprint), hex(attempt_id), metadata, hex(result))
            FROM idem_records WHERE id = ?1";
        let row = sqlx::query_scalar(query).bind(id).fetch_one(store.pool());
        row.await.unwrap()
    }

    #[tokio::test]
    async fn an_inserted_row_is_the_row_that_a_claim_writes() {
        let (_folder, store) = store().await;
        let attempt = AttemptId::random();
        let requests = |series: &str| {
            let request = |name: &str| request(&format!("{name} {series}")).with_attempt(attempt);
            [
                request("plain"),
                request("lasting")
                    .with_lease(HOUR)
                    .with_retention(HOUR * 30)
                    .with_on_stale(StalePolicy::Fail),
                request("noted").with_metadata(Metadata::new().with("who", "the first")),
            ]
        };
        let alone = requests("alone");
        for request in &alone {
            let mut session = store.session();
            let claimed = store.operations.claim(&mut session, request).await;
            assert_eq!(claimed.unwrap().name(), "acquired");
        }
        for (request, alone) in requests("inserted").into_iter().zip(&alone) {
            let mut answers: Answers<_> = vec![None];
            until_idle(&store).await;
            let operations = &store.operations;
            let claim = (0, ClaimParams::new(&request, &Limits::DEFAULT).unwrap());
            operations
                .insert_at_once(&mut store.session(), &[&claim], &mut answers)
                .await;
            let Some(Ok(ClaimOutcome::Acquired(claim))) = answers.remove(0) else {
                panic!("a fresh key")
            };
            let [written, expected] = [
                row(&store, request.key().id()).await,
                row(&store, alone.key().id()).await,
            ];
            assert_eq!(written, expected);
            let record = store.get(claim.key()).await.unwrap().unwrap();
            let idem_core::Record::InFlight(record) = record else {
                panic!("it is in flight")
            };
            assert_eq!(record.info.token, claim.token());
            assert_eq!(record.lease_ends_at, claim.lease_ends_at());
        }
    }

    #[tokio::test]
    async fn one_of_two_claims_of_a_key_or_an_attempt_is_inserted() {
        let (_folder, store) = store().await;
        let attempt = AttemptId::random();
        let requests = [
            request("key"),
            request("key"),
            request("one").with_attempt(attempt),
            request("two").with_attempt(attempt),
        ];
        let returned = inserted(&store, &requests).await;
        let winners = |returned: &[Option<&str>]| returned.iter().flatten().count();
        assert_eq!((winners(&returned[..2]), winners(&returned[2..])), (1, 1));
        let returned = store.claim_many(&requests).await;
        let returned = returned
            .into_iter()
            .map(|returned| returned.unwrap().name());
        assert_eq!(
            returned.filter(|returned| *returned == "acquired").count(),
            3
        );
    }

    #[tokio::test]
    async fn batches_of_any_size_are_inserted_in_full() {
        let (_folder, store) = store().await;
        for size in [1, 2, 3, 5, 64, 255, 256, 257, 600] {
            let requests: Vec<_> = (0..size)
                .map(|number| request(&format!("{number} of {size}")))
                .collect();
            let returned = inserted(&store, &requests).await;
            assert_eq!(returned, vec![Some("acquired"); size]);
        }
        let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM idem_records")
            .fetch_one(store.pool())
            .await
            .unwrap();
        assert_eq!(rows, 1 + 2 + 3 + 5 + 64 + 255 + 256 + 257 + 600);
    }

    #[tokio::test]
    async fn nothing_is_inserted_while_the_lock_is_taken() {
        let (folder, store) = store().await;
        let options = SqliteConnectOptions::new().filename(folder.path().join("idem.db"));
        let mut other = SqliteConnection::connect_with(&options).await.unwrap();
        let lock = other.begin_with("BEGIN IMMEDIATE").await.unwrap();
        assert_eq!(inserted(&store, &[request("one")]).await, [None]);
        let claims = [request("one")];
        let claimed = store.claim_many(&claims);
        let (claimed, ended) = tokio::join!(claimed, lock.commit());
        ended.unwrap();
        assert_eq!(claimed[0].as_ref().unwrap().name(), "acquired");
    }

    #[tokio::test]
    async fn concurrent_callers_each_get_their_own_answer() {
        let (_folder, store) = store().await;
        let mut claims = tokio::task::JoinSet::new();
        for number in 0..200 {
            let store = store.clone();
            let request = request(&(number / 2).to_string());
            claims.spawn(async move { store.claim(&request).await.unwrap().name() });
        }
        let returned = claims.join_all().await;
        let acquired = returned
            .iter()
            .filter(|returned| **returned == "acquired")
            .count();
        let in_flight = returned
            .iter()
            .filter(|returned| **returned == "in_flight")
            .count();
        assert_eq!((acquired, in_flight), (100, 100));
    }
}
