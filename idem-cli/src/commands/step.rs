//! `idem release`, `idem fail` and `idem delete`: steps in place of a holder.

use std::str::FromStr;
use std::time::Duration;

use idem_core::admin::{Forced, ForcedAction, ForcedStep, RecordSummary};
use idem_core::{Failure as Failed, FencingToken};
use serde_json::json;

use super::show::print_key;
use crate::args::{KeyArgs, StoreArgs};
use crate::backend::open;
use crate::confirm::{confirm, who};
use crate::failure::{Exit, Failure, Result};
use crate::masked::Secrets;
use crate::output::{Output, complain};
use crate::when;

/// The options of every forced step.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    key: KeyArgs,

    /// Why: the audit entry keeps it.
    #[arg(long, value_name = "TEXT")]
    reason: String,

    /// The token that the record must have: a number, or `current`.
    ///
    /// Default: the token shown with the question for a confirmation. With `--yes` nothing is shown,
    /// so this option is required: take the number from `show`, or `current` for whatever token the
    /// record has by then.
    #[arg(long, value_name = "N|current", required_if_eq("yes", "true"))]
    token: Option<Token>,

    /// Who: the audit entry keeps it. Default: USER@host.
    #[arg(long, value_name = "NAME", env = "IDEM_WHO")]
    who: Option<String>,

    /// Shows the record, and whether the step would be taken; changes nothing.
    #[arg(long)]
    dry_run: bool,

    /// Does not ask for a confirmation.
    #[arg(long, short)]
    yes: bool,
}

/// The options of `fail`.
#[derive(Debug, clap::Args)]
pub(crate) struct FailOptions {
    #[command(flatten)]
    options: Options,

    /// The failure's code, which callers compare.
    #[arg(long)]
    code: String,

    /// The failure's message.
    #[arg(long, value_name = "TEXT")]
    message: String,

    /// How long callers get the failure; then the key is free.
    #[arg(long, value_name = "DURATION", value_parser = when::duration, default_value = "24h")]
    retention: Duration,
}

impl FailOptions {
    /// Returns the common options and the kind of the step.
    pub(crate) fn split(self) -> Result<(Options, Kind)> {
        let kind = Kind::Fail {
            failure: Failed::new(self.code, self.message),
            retention: self.retention,
        };
        Ok((self.options, kind))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Number(FencingToken),
    Current,
}

impl FromStr for Token {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "current" {
            return Ok(Self::Current);
        }
        let number = text.parse::<i64>().ok().filter(|number| *number > 0);
        let number =
            number.ok_or_else(|| "a token is a positive number, or `current`".to_owned())?;
        Ok(Self::Number(FencingToken::from_i64(number)))
    }
}

/// Which step.
#[derive(Debug)]
pub(crate) enum Kind {
    Release,
    Fail {
        failure: Failed,
        retention: Duration,
    },
    Delete,
}

impl From<Kind> for ForcedAction {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Release => Self::Release,
            Kind::Fail { failure, retention } => Self::Fail { failure, retention },
            Kind::Delete => Self::Delete,
        }
    }
}

pub(crate) async fn run(
    args: &StoreArgs,
    options: &Options,
    kind: Kind,
    output: Output,
) -> Result<Exit> {
    let key = options.key.key()?;
    let store = open(args).await?;
    let admin = super::admin(&*store)?;
    let Some(record) = admin.summary(&key).await? else {
        return refused(None, "the key is free: there is no record of it", output);
    };
    let token = match options.token {
        Some(Token::Number(token)) => token,
        Some(Token::Current) | None => record.token,
    };
    let who = who(options.who.as_deref());
    let step = ForcedStep::new(key, token, kind.into(), who, &options.reason)?;
    let name = step.action().name();
    if options.dry_run || !options.yes {
        print_key(step.key(), Some(&record), output, Secrets::Masked)?;
        output.line("")?;
    }
    if !step.applies_to(&record) {
        return refused(Some(&record), &obstacle(&step, &record), output);
    }
    if options.dry_run {
        let before = Secrets::Masked.summary(&record);
        output.json(&json!({ "answer": "would_be_done", "action": name, "before": before }))?;
        output.line(format!("It would {name} this key with the token {token}."))?;
        return Ok(Exit::Done);
    }
    confirm(&question(&step), options.yes)?;
    match admin.force(&step).await? {
        Forced::Done { before } => {
            let before = Secrets::Masked.summary(&before);
            output.json(&json!({ "answer": "done", "action": name, "before": before }))?;
            output.line(match name {
                "release" => "Released: the key is free, and the old holder can do nothing.",
                "fail" => "Failed: callers get this failure from now on.",
                _ => "Deleted: the key is free.",
            })?;
            Ok(Exit::Done)
        }
        Forced::Refused { current: None } => {
            refused(None, "the key is free by now; nothing was changed", output)
        }
        Forced::Refused {
            current: Some(current),
        } => refused(Some(&current), &obstacle(&step, &current), output),
    }
}

fn question(step: &ForcedStep) -> String {
    let token = step.token();
    match step.action() {
        ForcedAction::Release => format!(
            "Release this key with the token {token}? Its work may run again, beside a holder that still lives."
        ),
        ForcedAction::Fail { failure, .. } => format!(
            "Fail this key with the token {token}? Callers get the code {}.",
            crate::text::plain(failure.code())
        ),
        ForcedAction::Delete => format!(
            "Delete the record with the token {token}? Its result is gone, and its work runs again with the next call."
        ),
    }
}

/// Returns why the step does not apply to the record.
fn obstacle(step: &ForcedStep, record: &RecordSummary) -> String {
    let (wanted, token, state) = (step.token(), record.token, record.state);
    if wanted != token {
        return format!(
            "the record has the token {token}, not {wanted}: another holder has the key; nothing was changed"
        );
    }
    let name = step.action().name();
    let advice = match step.action() {
        ForcedAction::Delete => {
            "`delete` is for completed and failed records, `release` for those in flight"
        }
        _ => "it is for records in flight; `delete` removes a completed or failed one",
    };
    format!("`{name}` does not apply to a record that is {state}: {advice}; nothing was changed")
}

fn refused(current: Option<&RecordSummary>, why: &str, output: Output) -> Result<Exit> {
    let current = current.map(|record| Secrets::Masked.summary(record));
    output.json(&json!({ "answer": "refused", "current": current, "why": why }))?;
    if output.is_json() {
        complain(why)?;
        return Ok(Exit::Problems);
    }
    Err(Failure::refused(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_a_positive_number_or_the_current_one() {
        assert_eq!("current".parse(), Ok(Token::Current));
        assert_eq!("7".parse(), Ok(Token::Number(FencingToken::from_i64(7))));
        for wrong in ["", "0", "-1", "7.0", "latest"] {
            assert!(wrong.parse::<Token>().is_err(), "{wrong}");
        }
    }
}
