//! The file is deleted, renamed or replaced under the store.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use idem_conformance::{Case, CaseResult, Context};
use idem_core::{BatchStore, BoxError, Error, ErrorKind, Finish, IdempotencyStore, Response};
use idem_sqlite::{SqliteStore, Transactions};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};

use super::case;
use crate::support;

pub(super) const A_FILE_THAT_IS_GONE_IS_NOTICED: Case =
    case(12, "a_file_that_is_gone_is_noticed", |cx| {
        Box::pin(a_file_that_is_gone_is_noticed(cx))
    });
pub(super) const A_COMMIT_INTO_A_FILE_THAT_IS_GONE_IS_AN_ERROR: Case =
    case(12, "a_commit_into_a_file_that_is_gone_is_an_error", |cx| {
        Box::pin(a_commit_into_a_file_that_is_gone_is_an_error(cx))
    });

const HOUR: Duration = Duration::from_secs(3600);

/// A change to a file.
type Fate = fn(&Path) -> std::io::Result<()>;

/// The changes to a file.
const FATES: &[(&str, Fate)] = &[
    ("deleted", |file| fs::remove_file(file)),
    ("deleted with its log", |file| {
        fs::remove_file(beside(file, "-wal"))?;
        fs::remove_file(beside(file, "-shm"))?;
        fs::remove_file(file)
    }),
    ("renamed", |file| fs::rename(file, beside(file, ".old"))),
    ("replaced by a copy", |file| {
        fs::copy(file, beside(file, ".copy"))?;
        fs::rename(beside(file, ".copy"), file)
    }),
    ("replaced by an empty file", |file| {
        fs::remove_file(file)?;
        fs::write(file, "")
    }),
];

fn beside(file: &Path, end: &str) -> PathBuf {
    let mut path = file.to_owned();
    path.as_mut_os_string().push(end);
    path
}

/// Opens a store in a folder of its own, and one on a caller's pool, of the same file.
async fn stores(cx: &Context, name: &str) -> CaseResult<(PathBuf, [SqliteStore; 2])> {
    let folder = format!("{}/{name}", cx.namespace());
    fs::create_dir(&folder)?;
    let store = support::store(&folder).await?;
    store.migrate().await?;
    let file = Path::new(&folder).join("idem.db");
    let options = SqliteConnectOptions::new().filename(&file);
    let pool = SqlitePoolOptions::new().connect_with(options).await?;
    Ok((file, [store, SqliteStore::new(pool)]))
}

fn is_clear<T: std::fmt::Debug>(fate: &str, returned: Result<T, Error>) {
    let error = returned.expect_err(fate);
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{fate}: {error}");
    // The error of a batch is the source.
    let source = std::error::Error::source(&error).map(ToString::to_string);
    let text = format!("{error}: {source:?}");
    assert!(text.contains("open the store anew"), "{fate}: {text}");
}

/// Writes into the file are not acknowledged, and reads of it are not replayed.
async fn a_file_that_is_gone_is_noticed(cx: &Context) -> CaseResult {
    for (number, (fate, befalls)) in FATES.iter().enumerate() {
        for at in 0..2 {
            let (file, stores) = stores(cx, &format!("{number}-{at}")).await?;
            let store = &stores[at];
            let response = Response::new(200, "done");
            let [held, done] = ["held", "done"].map(|id| cx.request(&cx.key(id)));
            let claims = store.claim_many(&[held.clone(), done.clone()]).await;
            let mut claims = claims.into_iter().map(|claim| claim.map(|c| c.acquired()));
            let claim = claims.next().transpose()?.flatten().ok_or("held")?;
            let sealed = claims.next().transpose()?.flatten().ok_or("done")?;
            store.complete(&sealed, &response, HOUR).await?;
            befalls(&file)?;
            is_clear(fate, store.complete(&claim, &response, HOUR).await);
            is_clear(fate, store.claim(&cx.request(&cx.key("fresh"))).await);
            is_clear(fate, store.renew(&claim, HOUR).await);
            is_clear(fate, store.delete_expired(1).await);
            is_clear(fate, store.claim(&done).await);
            is_clear(fate, store.get(done.key()).await);
            let fresh = cx.request(&cx.key("in a batch"));
            is_clear(fate, store.claim_many(&[fresh]).await.remove(0));
            let completion = Finish::Complete {
                claim,
                response,
                retention: HOUR,
            };
            is_clear(fate, store.finish_many(&[completion]).await.remove(0));
        }
    }
    Ok(())
}

/// In a caller's transaction the check comes before the commit; `Transactions` check after it, too.
async fn a_commit_into_a_file_that_is_gone_is_an_error(cx: &Context) -> CaseResult {
    for (number, (fate, befalls)) in FATES.iter().enumerate() {
        let (file, stores) = stores(cx, &number.to_string()).await?;
        let transactions = Transactions::new(&stores[0]);
        let mut attempts = transactions.attempts();
        let mut transaction = attempts.begin().await?;
        let request = cx.request(&cx.key("one"));
        let claim = stores[0].claim_in(&mut transaction, &request).await?;
        assert_eq!(claim.name(), "acquired");
        befalls(&file)?;
        let next = cx.request(&cx.key("two"));
        is_clear(fate, stores[0].claim_in(&mut transaction, &next).await);
        let done = attempts.finish(transaction, Ok::<_, BoxError>(())).await;
        let error = done.ok_or("it is repeated")?.expect_err(fate);
        assert!(error.to_string().contains("open the store anew"), "{error}");
        assert!(
            error.to_string().contains("may have taken effect"),
            "{error}"
        );
    }
    Ok(())
}
