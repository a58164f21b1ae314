//! A load of CSV files into DuckDB that is repeated and killed at random: every row is loaded once.
//!
//! A scheduler starts the load again after each crash, and nobody knows how far it came. The rows
//! of a file and its record are one transaction, so each file is loaded whole, and once.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use clap::Parser;
use idem_core::{BoxError, ClaimOutcome, ClaimRequest, Fingerprint, Key, Policy, Response};
use idem_duckdb::{Config, DuckDbStore, DuckDbTransaction, Transactions};
use idem_storm::report::{Report, exit};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, ChildStdin, Command};

/// The part to copy: loads files into the table `sales`.
struct Loader {
    store: DuckDbStore,
    transactions: Transactions,
}

impl Loader {
    async fn open(database: &Path) -> Result<Self, BoxError> {
        let store = DuckDbStore::connect(database, Config::new()).await?;
        store.migrate().await?;
        let create = "CREATE TABLE IF NOT EXISTS sales (
            day DATE, shop INTEGER, article VARCHAR, cents BIGINT, receipt VARCHAR)";
        let create = store
            .pool()
            .run(move |connection| connection.execute_batch(create));
        create.await?;
        let transactions = Transactions::new(&store);
        Ok(Self {
            store,
            transactions,
        })
    }

    /// Loads the file, unless it is loaded already: then returns what the first load returned. The
    /// key is the file's name, and the request is its content: other content under a name that is
    /// loaded is refused.
    async fn load(&self, file: &Path) -> Result<Loaded, BoxError> {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let key = Key::new("warehouse", "sales.load", name)?;
        let content = Fingerprint::of(&std::fs::read_to_string(file)?)?;
        let request = ClaimRequest::new(key, content);
        let mut attempts = self.transactions.attempts();
        loop {
            let mut transaction = attempts.begin().await?;
            let loaded = self.load_in(&mut transaction, &request, file).await;
            // Commits, or rolls back; `None` if another transaction was in the way: once more.
            if let Some(loaded) = attempts.finish(transaction, loaded).await {
                return loaded;
            }
        }
    }

    async fn load_in(
        &self,
        transaction: &mut DuckDbTransaction,
        request: &ClaimRequest,
        file: &Path,
    ) -> Result<Loaded, BoxError> {
        match self.store.claim_in(transaction, request).await? {
            ClaimOutcome::Acquired(claim) => {
                let rows = insert(transaction, file).await?;
                let (store, retention) = (&self.store, Policy::default().retention());
                let response = Response::json(&rows)?;
                let completed = store.complete_in(transaction, &claim, &response, retention);
                completed.await?;
                Ok(Loaded::Now(rows))
            }
            ClaimOutcome::Completed(before) => {
                let rows = serde_json::from_slice(before.response.body())?;
                Ok(Loaded::Before(rows))
            }
            other => Err(format!("{}: {}", file.display(), other.name()).into()),
        }
    }
}

/// Inserts the rows of the file, and returns how many there are.
async fn insert(transaction: &mut DuckDbTransaction, file: &Path) -> Result<usize, BoxError> {
    // DuckDB reads Parquet and JSON in the same way.
    let file = file.display().to_string().replace('\'', "''");
    let insert = format!("INSERT INTO sales SELECT * FROM read_csv('{file}')");
    let inserted = transaction.run(move |connection| connection.execute(&insert, []));
    inserted.await
}

/// How many rows a file has, and when they were loaded.
#[derive(Debug, Clone, Copy)]
enum Loaded {
    Now(usize),
    Before(usize),
}

/// Makes CSV files, loads them again and again in processes that are killed, and checks that every
/// row was loaded once.
///
/// Exit status 0: each was; 1: the listed checks failed; 2: the run could not be made.
#[derive(Debug, Parser)]
#[command(name = "batch_load", version, max_term_width = 100)]
struct Args {
    /// Number of files
    #[arg(long, value_name = "N", default_value_t = 12)]
    files: usize,

    /// Number of rows in each
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    rows: usize,

    /// Number of kills
    #[arg(long, value_name = "N", default_value_t = 15)]
    kills: u64,

    /// The same seed: the same rows
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Loads without records, to show that the check finds the errors
    #[arg(long)]
    sabotage: bool,

    /// Loads the files of its parent, which are in this folder
    #[arg(long, value_name = "FOLDER", hide = true)]
    load: Option<PathBuf>,
}

fn database(folder: &Path) -> PathBuf {
    folder.join("sales.duckdb")
}

fn file(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("sales-{number:03}.csv"))
}

/// Writes a file. Each row has a receipt of its own, so that a second one is found.
fn write(path: &Path, number: usize, rows: usize, rng: &mut StdRng) -> Result<(), BoxError> {
    let mut text = String::from("day,shop,article,cents,receipt\n");
    for row in 0..rows {
        let day = number % 28 + 1;
        let (shop, article) = (rng.random_range(1..500), rng.random_range(1..10_000));
        let cents = rng.random_range(1..100_000);
        text += &format!("2026-11-{day:02},{shop},article {article},{cents},{number}-{row}\n");
    }
    Ok(std::fs::write(path, text)?)
}

/// Loads each file twice, in random order, and prints a line for each.
async fn load(args: &Args, folder: &Path) -> Result<bool, BoxError> {
    // The pipe ends with the parent, however the parent ends.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    let loader = Loader::open(&database(folder)).await?;
    let mut numbers: Vec<_> = (0..args.files).chain(0..args.files).collect();
    numbers.shuffle(&mut rand::rng());
    for number in numbers {
        let path = file(folder, number);
        let loaded = match args.sabotage {
            true => {
                let mut transaction = loader.store.pool().begin().await?;
                let rows = insert(&mut transaction, &path).await?;
                transaction.commit().await?;
                Loaded::Now(rows)
            }
            false => loader.load(&path).await?,
        };
        let line = match loaded {
            Loaded::Now(rows) => format!("now {rows}"),
            Loaded::Before(rows) => format!("before {rows}"),
        };
        let mut out = std::io::stdout().lock();
        writeln!(out, "{line}")?;
        out.flush()?;
    }
    loader.store.close().await;
    Ok(true)
}

/// Starts a process that loads the files, and ends when its standard input does.
fn start(args: &Args, folder: &Path) -> Result<(Child, Option<ChildStdin>), BoxError> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--load").arg(folder);
    command.args(["--files", &args.files.to_string()]);
    if args.sabotage {
        command.arg("--sabotage");
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = command.kill_on_drop(true).spawn()?;
    let input = process.stdin.take();
    Ok((process, input))
}

/// What the processes have answered.
#[derive(Debug, Default)]
struct Answers {
    now: u64,
    before: u64,
    /// Answers with another number of rows than the file has.
    wrong: u64,
}

impl Answers {
    /// Reads the lines of a process that has ended, or was killed.
    async fn read(&mut self, mut process: Child, rows: usize) -> Result<(), BoxError> {
        let mut lines = String::new();
        if let Some(mut output) = process.stdout.take() {
            output.read_to_string(&mut lines).await?;
        }
        for line in lines.lines() {
            match line.split_once(' ') {
                Some(("now", _)) => self.now += 1,
                _ => self.before += 1,
            }
            let has_all = line.ends_with(&format!(" {rows}"));
            self.wrong += u64::from(!has_all);
        }
        Ok(())
    }
}

async fn conduct(args: &Args) -> Result<bool, BoxError> {
    let begun = Instant::now();
    let seed = args.seed.unwrap_or_else(rand::random);
    let mut rng = StdRng::seed_from_u64(seed);
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    for number in 0..args.files {
        write(&file(folder, number), number, args.rows, &mut rng)?;
    }
    let mut answers = Answers::default();
    let (mut kills, mut longest) = (0, Duration::from_millis(400));
    while kills < args.kills {
        let (mut process, _input) = start(args, folder)?;
        // Before, in and after loads, as far as chance can: sooner if the process was too fast.
        let life = longest.mul_f64(rng.random_range(0.1..1.0));
        let so_far = answers.now + answers.before;
        match tokio::time::timeout(life, process.wait()).await {
            Ok(ended) if !ended.as_ref().is_ok_and(ExitStatus::success) => {
                return Err(format!("a load failed: {ended:?}").into());
            }
            Ok(_) => longest = longest.mul_f64(0.8),
            Err(_) => {
                process.kill().await?;
                kills += 1;
            }
        }
        answers.read(process, args.rows).await?;
        if answers.now + answers.before == so_far {
            // The machine is slow: the next one may come further.
            longest = longest.mul_f64(1.2);
        }
    }
    let (mut last, _input) = start(args, folder)?;
    if !last.wait().await?.success() {
        return Err("the last load failed".into());
    }
    answers.read(last, args.rows).await?;
    report(args, folder, seed, &answers, begun).await
}

/// Counts the rows in the table.
async fn report(
    args: &Args,
    folder: &Path,
    seed: u64,
    answers: &Answers,
    begun: Instant,
) -> Result<bool, BoxError> {
    let loader = Loader::open(&database(folder)).await?;
    let counted = loader.store.pool().run(|connection| {
        let query = "SELECT version(), count(*), count(DISTINCT receipt) FROM sales";
        connection.query_row(query, [], |row| {
            Ok((
                row.get::<_, String>(0)?,
                row.get::<_, u64>(1)?,
                row.get::<_, u64>(2)?,
            ))
        })
    });
    let (version, rows, different) = counted.await?;
    let version = version.trim_start_matches('v');
    let expected = (args.files * args.rows) as u64;
    let mut report = Report::new(format!("DuckDB {version}, CSV files, seed {seed}"));
    report.count("files", args.files as u64, "");
    report.count("rows", rows, "in the table");
    report.count("killed", args.kills, "processes");
    report.count("loads", answers.now, "that were answered");
    report.count(
        "replays",
        answers.before,
        "of files that were loaded before",
    );
    report.time("elapsed", begun.elapsed(), "");
    report.check(different == expected, "rows are missing");
    report.check(rows <= expected, "rows were loaded twice");
    report.check(answers.wrong == 0, "an answer has another number of rows");
    let files = args.files as u64;
    report.check(answers.now <= files, "a file was loaded twice");
    Ok(report.print(
        "Every row was loaded exactly once.",
        "Not every row was loaded exactly once.",
    ))
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let ran = match &args.load {
        Some(folder) => load(&args, folder).await,
        None => conduct(&args).await,
    };
    exit("batch_load", ran)
}
