//! An operation that changes the caller's identity: a guest becomes a customer, the answer is lost,
//! and the retry comes from the customer. It still makes one account.
//!
//! ```console
//! $ cargo run -p idem-examples --bin account_change
//! ```

use std::process::{ExitCode, Stdio};
use std::time::Duration;

use clap::Parser;
use idem_core::{BoxError, BusyPolicy, Idempotency, Key, Outcome, Policy, Response, Work};
use idem_examples::effects::Effects;
use serde::{Deserialize, Serialize};
use tokio::process::Command;

/// Turns guests into customers, loses the answers, and checks that each has one account.
///
/// Exit status 0: all have one; 1: some have not, they are listed; 2: the run could not be made.
#[derive(Debug, Parser)]
#[command(name = "account_change", version, max_term_width = 100)]
struct Args {
    /// Where records and accounts are stored: the URLs of `storm`. Default: a SQLite file in a
    /// temporary folder
    #[arg(long, value_name = "URL")]
    store: Option<String>,

    /// Looks up only under the caller's own name, to show the result
    #[arg(long)]
    sabotage: bool,

    /// For workers: the tables
    #[arg(long, hide = true)]
    namespace: Option<String>,

    /// For workers: the caller
    #[arg(long, hide = true, default_value = "")]
    caller: String,

    /// For workers: the point of the kill
    #[arg(long, hide = true, default_value = "")]
    dies: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
        Self {
            idem: Idempotency::new(effects.store()).with_operation_policy("account.create", policy),
            effects,
            args,
        }
    }

    async fn post(&self, caller: &str, id: &str) -> Result<Outcome<Account>, BoxError> {
        let key = Key::new(caller, "account.create", id)?;
        let run = self
            .idem
            .run(&key, "one account", |work| self.create(work, id));
        Ok(run.await.map_err(|error| error.to_string())?)
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
        self.effects
            .commit(&work, id, &account.customer, response)
            .await?;
        self.dies("after");
        Ok(account)
    }

    fn dies(&self, point: &str) {
        if self.args.dies == point {
            std::process::abort();
        }
    }
}

/// Runs one request in a process of its own. Returns whether the process was killed.
async fn killed(
    effects: &Effects,
    args: &Args,
    caller: &str,
    dies: &str,
) -> Result<bool, BoxError> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--store", effects.url(), "--namespace", effects.namespace()]);
    command.args(["--caller", caller, "--dies", dies]);
    if args.sabotage {
        command.arg("--sabotage");
    }
    Ok(command
        .stdout(Stdio::null())
        .status()
        .await?
        .code()
        .is_none())
}

/// Sends the guest's request, whose answer is lost, and repeats it under the new name. Returns
/// whether one account was made.
async fn upgrade(
    effects: &Effects,
    args: &Args,
    dies: &str,
    retry: &str,
) -> Result<bool, BoxError> {
    let id = format!("{dies}-{retry}");
    let guest = format!("guest of {id}");
    let endpoint = Endpoint::new(effects, args);
    let was_killed = killed(effects, args, &guest, dies).await?;
    let callers = match retry {
        "guest" => [guest, format!("customer of {id}")],
        _ => [format!("customer of {id}"), guest],
    };
    let mut returned = Vec::new();
    for caller in &callers {
        let outcome = endpoint.post(caller, &id).await?;
        let how = if outcome.is_replayed() {
            "replayed"
        } else {
            "done"
        };
        returned.push(format!(
            "{} {how}",
            caller.split(' ').next().unwrap_or_default()
        ));
    }
    let made = effects
        .all()
        .await?
        .into_iter()
        .filter(|effect| effect.id == id)
        .count();
    let first = if was_killed { "killed" } else { "answer lost" };
    println!(
        "{:<28}{:<38}{made} account(s)",
        format!("guest {first} {dies}"),
        returned.join(", ")
    );
    Ok(made == 1)
}

async fn run(args: Args) -> Result<ExitCode, BoxError> {
    if let (Some(store), Some(namespace)) = (&args.store, &args.namespace) {
        let effects = Effects::join(store, namespace).await?;
        let id = args.caller.trim_start_matches("guest of ");
        Endpoint::new(&effects, &args)
            .post(&args.caller, id)
            .await?;
        return Ok(ExitCode::SUCCESS);
    }
    let effects = Effects::create(args.store.as_deref(), "account").await?;
    println!(
        "{}
",
        effects.product().await?
    );
    println!("{:<28}retries", "first request");
    let mut as_expected = true;
    for dies in ["never", "before", "after"] {
        for retry in ["guest", "customer"] {
            as_expected &= upgrade(&effects, &args, dies, retry).await?;
        }
    }
    effects.remove().await?;
    println!(
        "\n{}",
        if as_expected {
            "Every guest has exactly one account."
        } else {
            "Some guests have not exactly one account."
        }
    );
    Ok(ExitCode::from(u8::from(!as_expected)))
}

#[tokio::main]
async fn main() -> ExitCode {
    run(Args::parse()).await.unwrap_or_else(|reason| {
        eprintln!("account_change: {reason}");
        ExitCode::from(2)
    })
}
