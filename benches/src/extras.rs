//! [`Extras`]: contenders from elsewhere.

use crate::Contender;
use crate::generators::{Statement, generator};

/// Makes a contender, where it can.
type Make = Box<dyn Fn() -> Option<Box<dyn Contender>> + Send + Sync>;

/// One of them: backend, path, callers, and who makes it.
type Extra = (String, &'static str, usize, Make);

/// What a load generator does in which path.
const GENERATED: [(&str, Statement); 3] = [
    ("claim_fresh", Statement::Insert),
    ("claim_complete", Statement::InsertUpdate),
    ("replay", Statement::Select),
];

/// Contenders that are no operation of this crate's: a server's own load generator, another crate's store. Each takes
/// part in one path of one backend, at one concurrency.
#[derive(Default)]
pub struct Extras {
    all: Vec<Extra>,
}

impl Extras {
    /// Nobody else.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The servers' own load generators, at 64 callers.
    #[must_use]
    pub fn generators<'b>(backends: impl IntoIterator<Item = &'b str>) -> Self {
        let mut extras = Self::new();
        for backend in backends {
            let Some(url) = idem_servers::url_for(backend) else {
                continue;
            };
            for (path, statement) in GENERATED {
                let (name, url) = (backend.to_owned(), url.clone());
                let make = move || generator(&name, statement, &url);
                extras = extras.with((backend, path, 64), make);
            }
        }
        extras
    }

    /// The same with what `make` gives, in this path of this backend, at so many callers.
    #[must_use]
    pub fn with(
        mut self,
        (backend, path, callers): (&str, &'static str, usize),
        make: impl Fn() -> Option<Box<dyn Contender>> + Send + Sync + 'static,
    ) -> Self {
        let extra = (backend.to_owned(), path, callers, Box::new(make) as Make);
        self.all.push(extra);
        self
    }

    /// Those of this path of this backend at so many callers.
    pub fn of(
        &self,
        backend: &str,
        path: &str,
        callers: usize,
    ) -> impl Iterator<Item = Box<dyn Contender>> {
        let meant =
            move |extra: &&Extra| extra.0 == backend && extra.1 == path && extra.2 == callers;
        self.all.iter().filter(meant).filter_map(|extra| extra.3())
    }
}

impl std::fmt::Debug for Extras {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self
            .all
            .iter()
            .map(|(backend, path, callers, _)| (backend, path, callers));
        f.debug_list().entries(names).finish()
    }
}
