//! Secrets: data that no log line, error, `Debug` or panic message may show.
//!
//! The factories of a [`Context`](crate::Context) put [`MARK`] into scopes and metadata, and cases
//! put it into payloads with [`secret`]. While a case runs, this module looks for it in
//!
//! * `Display` and `Debug` of each error that a store returns, and `Debug` of each claim, outcome
//!   and record;
//! * `Debug` of each opened store;
//! * log lines: of targets that begin with `idem` at every level, of all others from INFO up. A
//!   driver's DEBUG and TRACE lines show the wire: an operator has to enable them, and no store can
//!   change them. Its warnings are on by default, such as that of a slow statement with its text;
//! * panic messages, also those of background tasks.
//!
//! The [source](std::error::Error::source) of an error is the driver's own and may quote data; the
//! error itself may not repeat it. A case whose store shows the mark fails, with a message that
//! does not show it either.
//!
//! The module sees log lines only if the test program has set no tracing subscriber of its own.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::error::Error as StdError;
use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, Once, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::last_call::LastCall;
use crate::{CaseError, CaseResult};

/// The word that nothing may show. No identifier contains it, so an occurrence always shows data.
pub const MARK: &str = "swordfish";

/// The text printed in its place.
const REDACTED: &str = "[secret]";

/// Most occurrences printed.
const SHOWN: usize = 5;

/// Returns a secret text: payloads, passwords.
#[must_use]
pub fn secret(text: impl fmt::Display) -> String {
    format!("{text} {MARK}")
}

/// Returns the text without the secret.
#[must_use]
pub fn redact(text: &str) -> String {
    text.replace(MARK, REDACTED)
}

thread_local! {
    /// The case of this thread.
    static CURRENT: RefCell<Option<Watch>> = const { RefCell::new(None) };
}

/// Secrets shown by drivers' threads, which belong to no case.
static STRAY: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// The occurrences of the secret in a case, and how far it has come.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    leaks: Arc<Mutex<BTreeSet<String>>>,
    pub(crate) last_call: LastCall,
}

impl Watch {
    /// Searches a text for the secret.
    pub fn text(&self, what: impl fmt::Display, shown: &str) {
        if shown.contains(MARK) {
            self.note(format!("{what} shows a secret: {}", redact(shown)));
        }
    }

    /// Searches a `Debug` form for the secret.
    pub fn debug(&self, what: impl fmt::Display, value: &dyn fmt::Debug) {
        self.text(format_args!("`Debug` of {what}"), &format!("{value:?}"));
    }

    /// Searches an error's forms for the secret, but not its sources: they are the driver's own.
    /// What the error repeats of them is found here.
    pub fn error(&self, what: impl fmt::Display, error: &dyn StdError) {
        self.text(format_args!("the error of {what}"), &error.to_string());
        self.debug(format_args!("the error of {what}"), &error);
    }

    fn note(&self, leak: String) {
        let mut leaks = self.leaks.lock().unwrap_or_else(PoisonError::into_inner);
        leaks.insert(leak);
    }

    /// Assigns this thread's log lines and panics to this case, until the guard is dropped.
    pub(crate) fn of_this_thread(&self) -> Watching {
        let before = CURRENT.with(|current| current.replace(Some(self.clone())));
        Watching(before)
    }

    /// Does the same for a thread that belongs to the case until it ends.
    pub(crate) fn for_this_thread(&self) {
        CURRENT.with(|current| current.replace(Some(self.clone())));
    }

    /// Fails when the secret was shown.
    ///
    /// # Errors
    ///
    /// An error with all occurrences.
    pub(crate) fn verdict(&self) -> CaseResult {
        let mut leaks = self.leaks.lock().unwrap_or_else(PoisonError::into_inner);
        leaks.append(&mut STRAY.lock().unwrap_or_else(PoisonError::into_inner));
        if leaks.is_empty() {
            return Ok(());
        }
        let mut shown: Vec<_> = leaks.iter().take(SHOWN).cloned().collect();
        if leaks.len() > SHOWN {
            shown.push(format!("and {} times more", leaks.len() - SHOWN));
        }
        Err(CaseError::new(shown.join("\n")))
    }
}

pub(crate) struct Watching(Option<Watch>);

impl Drop for Watching {
    fn drop(&mut self) {
        let before = self.0.take();
        // The thread may be ending.
        let _ = CURRENT.try_with(|current| current.replace(before));
    }
}

/// Records an occurrence for the case of this thread; without one, for the next case that ends.
fn note(what: impl fmt::Display, shown: &str) {
    if !shown.contains(MARK) {
        return;
    }
    let current = CURRENT.try_with(|current| current.borrow().clone());
    match current.ok().flatten() {
        Some(watch) => watch.text(what, shown),
        None => {
            let leak = format!(
                "{what} shows a secret (in this case or one beside it): {}",
                redact(shown)
            );
            let mut stray = STRAY.lock().unwrap_or_else(PoisonError::into_inner);
            stray.insert(leak);
        }
    }
}

/// Starts to listen to log lines and panics.
pub(crate) fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // A program with a subscriber of its own keeps it.
        let _ = tracing::subscriber::set_global_default(Subscription);
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| match panic.payload_as_str() {
            Some(text) if text.contains(MARK) => {
                let at = panic.location().map(ToString::to_string);
                let at = at.unwrap_or_default();
                note(format_args!("a panic at {at}"), text);
                eprintln!("panicked at {at}: {}", redact(text));
            }
            _ => before(panic),
        }));
    });
}

/// Searches log lines; keeps none.
struct Subscription;

impl Subscription {
    fn look(metadata: &Metadata<'_>, record: impl FnOnce(&mut Line)) {
        let mut line = Line(String::new());
        record(&mut line);
        note(
            format_args!("a log line of {} ({})", metadata.target(), metadata.level()),
            &line.0,
        );
    }
}

impl Subscriber for Subscription {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("idem") || *metadata.level() <= Level::INFO
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        Self::look(span.metadata(), |line| span.record(line));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        let mut line = Line(String::new());
        values.record(&mut line);
        note("a field of a span", &line.0);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        Self::look(event.metadata(), |line| event.record(line));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The fields of a log line.
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string cannot fail.
        let _ = write!(self.0, "{}={value:?} ", field.name());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Quoting;

    impl fmt::Display for Quoting {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(&secret("cannot read"))
        }
    }

    impl StdError for Quoting {}

    #[test]
    fn a_secret_is_found_in_each_form_and_not_repeated() {
        let watch = Watch::default();
        watch.error("an operation", &Quoting);
        watch.debug("a text", &secret("text"));
        let message = watch.verdict().unwrap_err().to_string();
        assert!(message.contains("the error of an operation"), "{message}");
        assert!(message.contains("`Debug` of a text"), "{message}");
        assert!(
            !message.contains(MARK) && message.contains(REDACTED),
            "{message}"
        );
        let silent = Watch::default();
        silent.debug("a number", &7);
        assert!(silent.verdict().is_ok());
    }

    #[test]
    fn a_failure_of_a_case_repeats_no_secret() {
        let failure = CaseError::from(Quoting).while_doing(secret("claiming"));
        let shown = format!("{failure} {failure:?}");
        assert!(!shown.contains(MARK), "{shown}");
        let failure = CaseError::new("the id is \u{1b}[2J\u{7}\nand more");
        assert_eq!(failure.to_string(), "the id is \\u{1b}[2J\\u{7}\nand more");
    }
}
