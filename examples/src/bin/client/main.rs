//! Buyers and a server that are all killed at random: every order is charged once, because a
//! restarted buyer repeats its requests under the keys that it kept.

mod buyer;
mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use clap::Parser;
use idem_core::{BoxError, Key};
use idem_examples::crew::Crew;
use idem_storm::effects::{Effects, StoreArgs};
use idem_storm::report::{Report, exit};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::time::sleep;

use buyer::Buyer;

/// Charges orders while buyers and server are killed, and checks that each was charged once.
///
/// Exit status 0: all were; 1: some were not, they are listed; 2: the run could not be made.
#[derive(Debug, Parser)]
#[command(name = "client", version, max_term_width = 100)]
struct Args {
    #[command(flatten)]
    store: StoreArgs,

    /// Number of orders of each kind of buyer
    #[arg(long, value_name = "N", default_value_t = 250)]
    orders: u32,

    /// How often a process is killed
    #[arg(long, value_name = "N", default_value_t = 150)]
    kills: u64,

    /// The same seed: the same order of requests, victims and crashes
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Buyers name no intent, to show that the check finds the errors
    #[arg(long)]
    sabotage: bool,

    /// For the server: its address
    #[arg(long, hide = true)]
    serve: Option<SocketAddr>,

    /// For a buyer: its name, its server and its folder
    #[arg(long, hide = true, num_args = 3)]
    buy: Option<Vec<String>>,
}

/// The buyers. Those of the shop share their orders, and their keys in a store. The kiosk has
/// orders of its own, and its keys in a file.
const BUYERS: [&str; 3] = ["shop-1", "shop-2", "kiosk"];
const LIMIT: Duration = Duration::from_secs(180);

/// What a buyer notes of an answer, a line of JSON.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Note {
    order: String,
    key: String,
    text: String,
    is_replay: bool,
    tries: u32,
}

/// Returns the notes in the file, without a last line that a killed buyer did not finish.
fn notes(path: &Path) -> Result<Vec<Note>, BoxError> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let notes = whole.lines().filter(|line| !line.is_empty());
    notes.map(|line| Ok(serde_json::from_str(line)?)).collect()
}

fn notes_of(folder: &Path, buyer: &str) -> PathBuf {
    folder.join(format!("{buyer}.notes"))
}

/// Server and buyers, a crew of one each.
struct Everybody(Vec<Crew>);

impl Everybody {
    async fn start(
        args: &Args,
        effects: &Effects,
        folder: &Path,
        seed: u64,
    ) -> Result<Self, BoxError> {
        // The listener is gone by the time the server needs its port.
        let address = TcpListener::bind("127.0.0.1:0").await?.local_addr()?;
        let common = [
            format!("--seed={seed}"),
            format!("--orders={}", args.orders),
        ];
        let mut process = effects.process()?;
        process.args(&common).stderr(Stdio::null());
        process.args(["--serve", &address.to_string()]);
        let mut server = Crew::start(1, process)?;
        server.until_up(address).await?;
        let mut crews = vec![server];
        let folder = folder.to_str().ok_or("the temporary folder has no name")?;
        for name in BUYERS {
            let mut process = effects.process()?;
            process.args(&common).stderr(Stdio::null());
            process.args(["--buy", name, &address.to_string(), folder]);
            process.args(args.sabotage.then_some("--sabotage"));
            crews.push(Crew::start(1, process)?);
        }
        Ok(Self(crews))
    }

    /// Kills one process after the other, and starts those anew that have ended, until the buyers
    /// have noted an answer to each order.
    async fn until_done(&mut self, args: &Args, folder: &Path, seed: u64) -> Result<(), BoxError> {
        let (begun, mut random) = (Instant::now(), StdRng::seed_from_u64(seed));
        let mut kills = 0;
        loop {
            sleep(Duration::from_millis(random.random_range(40..300))).await;
            for crew in &mut self.0 {
                crew.replace_the_dead()?;
            }
            let noted = BUYERS.map(|name| notes(&notes_of(folder, name)));
            let mut is_done = true;
            for notes in noted {
                is_done &= notes?.len() >= args.orders as usize;
            }
            if is_done {
                return Ok(());
            }
            if kills < args.kills {
                // The server half of the time.
                let victim = random.random_range(0..2 * BUYERS.len());
                let victim = if victim < self.0.len() { victim } else { 0 };
                self.0[victim].kill_one().await?;
                kills += 1;
            }
            if begun.elapsed() > LIMIT {
                return Err("the orders do not come to an end".into());
            }
        }
    }

    fn count(&self, report: &mut Report) {
        let sum = |crews: &[Crew], count: fn(&Crew) -> u64| crews.iter().map(count).sum();
        let (server, buyers) = self.0.split_at(1);
        report.count("killed", sum(server, |crew| crew.killed), "the server");
        report.count("killed", sum(buyers, |crew| crew.killed), "buyers");
        let before_answer = "the server, between commit and answer";
        report.count("crashed", sum(server, |crew| crew.died), before_answer);
        let before_note = "buyers, between answer and note";
        report.count("crashed", sum(buyers, |crew| crew.died), before_note);
    }

    async fn dismiss(self) {
        for crew in self.0 {
            crew.dismiss().await;
        }
    }
}

/// Compares what the buyers noted with the ledger.
async fn judge(
    report: &mut Report,
    args: &Args,
    effects: &Effects,
    folder: &Path,
) -> Result<(), BoxError> {
    let mut all: BTreeMap<String, Note> = BTreeMap::new();
    let (mut answers, mut replays, mut repeats) = (0, 0, 0);
    for name in BUYERS {
        for note in notes(&notes_of(folder, name))? {
            answers += 1;
            replays += u64::from(note.is_replay);
            repeats += u64::from(note.tries) - 1;
            let first = all.get(&note.order);
            if first.is_some_and(|first| (&first.key, &first.text) != (&note.key, &note.text)) {
                report.wrong(format!("{} has two keys, or two answers", note.order));
            }
            all.entry(note.order.clone()).or_insert(note);
        }
    }
    report.count("orders", all.len() as u64, "");
    report.count("answers", answers, "those of the shop go to two buyers");
    report.count("replays", replays, "the stored answer");
    report.count("repeats", repeats, "of a request within one call");
    let expected: BTreeSet<String> = ["shop-1", "kiosk"]
        .into_iter()
        .flat_map(|name| (0..args.orders).map(move |number| buyer::order(name, number)))
        .collect();
    let is_complete = all.keys().eq(expected.iter());
    report.check(
        is_complete,
        "the answered orders are not those of the buyers",
    );
    let key = |note: &Note| Key::new(server::SCOPE, server::OPERATION, &note.key);
    let keyed = |note| Ok((key(note)?, false));
    let keys: Result<_, BoxError> = all.values().map(keyed).collect();
    effects.audit(report, "charged", keys?).await
}

async fn conduct(args: &Args) -> Result<bool, BoxError> {
    let seed = args.seed.unwrap_or_else(|| rand::random::<u32>().into());
    let begun = Instant::now();
    let effects = args.store.open("client").await?;
    let folder = tempfile::tempdir()?;
    buyer::prepare(folder.path()).await?;
    let mut report = Report::new(format!(
        "{}, {} buyers and a server, seed {seed}",
        effects.product().await?,
        BUYERS.len()
    ));
    let mut everybody = Everybody::start(args, &effects, folder.path(), seed).await?;
    everybody.until_done(args, folder.path(), seed).await?;
    everybody.count(&mut report);
    everybody.dismiss().await;
    judge(&mut report, args, &effects, folder.path()).await?;
    report.time("elapsed", begun.elapsed(), "");
    effects.remove().await?;
    Ok(report.print(
        "Every order was charged exactly once.",
        "Not every order was charged exactly once.",
    ))
}

async fn run(args: Args) -> Result<bool, BoxError> {
    let seed = args.seed.unwrap_or_default();
    if let Some(address) = args.serve {
        let effects = args.store.open("client").await?;
        server::serve(address, effects, seed).await?;
    } else if let Some([name, address, folder]) = args.buy.as_deref() {
        let buyer = Buyer {
            name: name.clone(),
            url: format!("http://{address}/charges"),
            folder: folder.into(),
            orders: args.orders,
            seed,
            is_sabotaged: args.sabotage,
        };
        buyer.buy().await?;
    } else {
        return conduct(&args).await;
    }
    Ok(true)
}

#[tokio::main]
async fn main() -> ExitCode {
    exit("client", run(Args::parse()).await)
}
