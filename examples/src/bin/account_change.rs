//! An operation that changes the caller's identity: a guest becomes a customer, the answer is lost,
//! and the retry comes from the customer. It still makes one account.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use idem_core::{BoxError, BusyPolicy, Idempotency, Key, Outcome, Policy, Response, Work};
use idem_storm::effects::{Effects, StoreArgs};
use idem_storm::report::{conclude, exit};
use serde::{Deserialize, Serialize};

/// Turns guests into customers, loses the answers, and checks that each has one account.
///
/// Exit status 0: all have one; 1: some have not, they are listed; 2: the run could not be made.
#[derive(Debug, Parser)]
#[command(name = "account_change", version, max_term_width = 100)]
struct Args {
    #[command(flatten)]
    store: StoreArgs,

    /// Looks up only under the caller's own name, to show the result
    #[arg(long)]
    sabotage: bool,

    /// For workers: the kind of caller, and the id of the request
    #[arg(long, hide = true, num_args = 2)]
    request: Vec<String>,

    /// For workers: the point of the kill
    #[arg(long, hide = true, default_value = "")]
    dies: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Account {
    customer: String,
}

/// `POST /account`: the caller is a guest at first, and a customer afterwards.
struct Endpoint<'a> {
    effects: &'a Effects,
    idem: Idempotency,
    args: &'a Args,
}

impl<'a> Endpoint<'a> {
    fn new(effects: &'a Effects, args: &'a Args) -> Self {
        // Retries wait for the lease of a killed worker.
        let policy = Policy::default()
            .with_lease(Duration::from_millis(500))
            .with_on_busy(BusyPolicy::wait(Duration::from_secs(60)));
        let idem = Idempotency::new(effects.store());
        Self {
            idem: idem.with_operation_policy("account.create", policy),
            effects,
            args,
        }
    }

    async fn post(&self, caller: &str, id: &str) -> Result<Outcome<Account>, BoxError> {
        let key = Key::new(format!("{caller} of {id}"), "account.create", id)?;
        let create = |work| self.create(work, id);
        let ran = self.idem.run(&key, "one account", create).await;
        Ok(ran.map_err(|error| error.to_string())?)
    }

    async fn create(&self, work: Work, id: &str) -> Result<Account, BoxError> {
        let customer = format!("customer of {id}");
        // After the commit the same person calls under another name: the retry has to find the
        // record there.
        if !self.args.sabotage {
            let key = Key::new(&customer, "account.create", id)?;
            if let Some(done) = work.add_alias(&key).await? {
                return Ok(done.from_json()?);
            }
        }
        self.dies("before");
        let account = Account { customer };
        let response = Response::json(&account)?;
        self.effects.commit(&work, id, response).await?;
        self.dies("after");
        Ok(account)
    }

    fn dies(&self, point: &str) {
        if self.args.dies == point {
            std::process::abort();
        }
    }
}

/// Sends the guest's request, whose answer is lost, and repeats it under the new name. Returns
/// whether one account was made.
async fn upgrade(
    effects: &Effects,
    args: &Args,
    dies: &str,
    callers: [&str; 2],
) -> Result<bool, BoxError> {
    let id = format!("{dies}-{}", callers[0]);
    let mut worker = effects.process()?;
    worker.args(["--request", "guest", &id, "--dies", dies]);
    if args.sabotage {
        worker.arg("--sabotage");
    }
    let is_killed = worker.status().await?.code().is_none();
    let endpoint = Endpoint::new(effects, args);
    let mut returned = Vec::new();
    for caller in callers {
        let is_replayed = endpoint.post(caller, &id).await?.is_replayed();
        let state = if is_replayed { "replayed" } else { "done" };
        returned.push(format!("{caller} {state}"));
    }
    let all = effects.all().await?;
    let made = all.iter().filter(|effect| **effect == id).count();
    let first = if is_killed { "killed" } else { "answer lost" };
    let (first, returned) = (format!("guest {first} {dies}"), returned.join(", "));
    println!("{first:<28}{returned:<38}{made} account(s)");
    Ok(made == 1)
}

async fn run(args: Args) -> Result<bool, BoxError> {
    let effects = args.store.open("account").await?;
    if let [caller, id] = &args.request[..] {
        Endpoint::new(&effects, &args).post(caller, id).await?;
        return Ok(true);
    }
    println!("{}\n", effects.product().await?);
    println!("{:<28}retries", "first request");
    let mut as_expected = true;
    for dies in ["never", "before", "after"] {
        for callers in [["guest", "customer"], ["customer", "guest"]] {
            as_expected &= upgrade(&effects, &args, dies, callers).await?;
        }
    }
    effects.remove().await?;
    Ok(conclude(
        as_expected,
        "Every guest has exactly one account.",
        "Some guests have not exactly one account.",
    ))
}

#[tokio::main]
async fn main() -> ExitCode {
    exit("account_change", run(Args::parse()).await)
}
