//! Other processes of the machine.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use idem_conformance::{Case, CaseResult, Context};
use idem_core::{
    BoxError, ClaimRequest, ErrorKind, Fingerprint, IdempotencyStore, Key, Record, Response,
};
use idem_duckdb::{Config, DuckDbPool, DuckDbStore};

use super::case;
use crate::support::file;

pub(super) const ACKNOWLEDGED_COMPLETIONS_SURVIVE_A_KILL: Case =
    case(12, "acknowledged_completions_survive_a_kill", |cx| {
        Box::pin(acknowledged_completions_survive_a_kill(cx))
    });
pub(super) const ANOTHER_PROCESS_WAITS_UNTIL_THE_FILE_IS_FREE: Case =
    case(12, "another_process_waits_until_the_file_is_free", |cx| {
        Box::pin(another_process_waits_until_the_file_is_free(cx))
    });

/// The variable of a child process: the folder of the database.
const JOB: &str = "IDEM_DUCKDB_CHILD";

const HOUR: Duration = Duration::from_secs(3600);

/// Completions that the child has acknowledged before it is killed.
const ENOUGH: usize = 40;

fn request(id: &str) -> Result<ClaimRequest, BoxError> {
    let key = Key::new("tenant", "payments.create", id)?;
    Ok(ClaimRequest::new(key, Fingerprint::raw("request")).with_lease(HOUR))
}

/// Completes keys until it is killed, if this is a child process that was started for that. Prints
/// each key whose completion the store has acknowledged.
pub(crate) fn as_child() -> Option<ExitCode> {
    let folder = std::env::var_os(JOB)?;
    let runtime = tokio::runtime::Runtime::new().ok()?;
    let result = runtime.block_on(complete_until_killed(Path::new(&folder)));
    eprintln!("{result:?}");
    Some(ExitCode::FAILURE)
}

async fn complete_until_killed(folder: &Path) -> Result<(), BoxError> {
    let store = DuckDbStore::connect(file(folder), Config::new()).await?;
    store.migrate().await?;
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..4 {
        let store = store.clone();
        writers.spawn(async move {
            for number in 0.. {
                let id = format!("{}-{writer}-{number}", std::process::id());
                let claim = store.claim(&request(&id)?).await?;
                let claim = claim.acquired().ok_or("a fresh key")?;
                let response = Response::new(200, id.clone());
                store.complete(&claim, &response, HOUR).await?;
                let mut out = std::io::stdout().lock();
                writeln!(out, "{id}")?;
                out.flush()?;
            }
            Ok::<_, BoxError>(())
        });
    }
    while let Some(ended) = writers.join_next().await {
        ended??;
    }
    Ok(())
}

fn child(folder: &Path) -> CaseResult<(Child, BufReader<ChildStdout>)> {
    let mut command = Command::new(std::env::current_exe()?);
    command.env(JOB, folder).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let output = child.stdout.take().ok_or("no output")?;
    Ok((child, BufReader::new(output)))
}

/// Reads as many lines; all that are left for `None`.
fn lines(output: &mut BufReader<ChildStdout>, count: usize) -> CaseResult<Vec<String>> {
    let lines = output.lines().take(count);
    Ok(lines.collect::<Result<_, _>>()?)
}

/// Kills a process three times amid its completions, each time with SIGKILL, and looks for all that
/// it has acknowledged.
async fn acknowledged_completions_survive_a_kill(cx: &Context) -> CaseResult {
    let folder = Path::new(cx.namespace()).join("killed");
    std::fs::create_dir(&folder)?;
    let mut acknowledged = Vec::new();
    for _ in 0..3 {
        let (mut process, mut output) = child(&folder)?;
        acknowledged.extend(lines(&mut output, ENOUGH)?);
        process.kill()?;
        process.wait()?;
        // What it printed before it died counts too.
        acknowledged.extend(lines(&mut output, usize::MAX)?);
        let store = DuckDbStore::connect(file(&folder), Config::new()).await?;
        for id in &acknowledged {
            let Some(Record::Completed(record)) = store.get(request(id)?.key()).await? else {
                return Err(format!("the acknowledged completion of {id} is lost").into());
            };
            assert_eq!(record.response.body(), id.as_bytes());
            assert_eq!(store.claim(&request(id)?).await?.name(), "completed");
        }
        store.close().await;
    }
    assert!(acknowledged.len() >= 3 * ENOUGH);
    Ok(())
}

async fn another_process_waits_until_the_file_is_free(cx: &Context) -> CaseResult {
    let folder = Path::new(cx.namespace()).join("busy");
    std::fs::create_dir(&folder)?;
    let (mut process, mut output) = child(&folder)?;
    lines(&mut output, 1)?;
    let hasty = Config::new().with_timeout(Duration::from_millis(100));
    let begun = Instant::now();
    let error = DuckDbPool::open(file(&folder), &hasty).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Contention, "{error}");
    assert!(begun.elapsed() < Duration::from_secs(30));
    let patient = Config::new().with_timeout(Duration::from_secs(60));
    let path = file(&folder);
    let opened = tokio::spawn(async move { DuckDbPool::open(path, &patient).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    process.kill()?;
    process.wait()?;
    let store = DuckDbStore::new(opened.await??);
    Ok(store.verify().await?)
}
