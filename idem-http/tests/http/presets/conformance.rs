//! Runs the rows of a preset against a server.

use std::time::Duration;

use idem_http::Requirement;

use super::curl::{self, Said};
use super::page::{self, Shown};
use super::row::{Does, Expected};
use super::server::Server;
use super::subject::{Order, Sent, Subject};
use crate::support::until;

/// Runs every row, compares the answers, and compares the page.
pub(super) async fn check(subject: &Subject) {
    let server = Server::start((subject.policy)()).await;
    let mut rows = Vec::new();
    for (number, expected) in Expected::read(subject.rows).iter().enumerate() {
        // A UUID of version 7, which every preset accepts; replays share the first row's.
        let shared = matches!(
            expected.row,
            "First"
                | "Replay"
                | "Rewritten"
                | "WithNull"
                | "OtherContext"
                | "OtherBody"
                | "Elsewhere"
                | "OtherAccount"
                | "NewId"
        );
        let number = if shared { 0 } else { number };
        let key = format!("017f22e2-79b0-7cc3-98c4-dc0c0c0739{number:02x}");
        let run = Run {
            subject,
            server: &server,
            said: Vec::new(),
        };
        rows.push(run.row(expected, &key).await);
    }
    page::check(subject.name, &server.lifetime.iso8601(), &rows);
}

struct Run<'a> {
    subject: &'a Subject,
    server: &'a Server,
    said: Vec<(String, Said)>,
}

impl Run<'_> {
    async fn send(&mut self, sent: &Sent) {
        let command = self.subject.command(sent);
        let said = curl::run(&command, self.server.address).await;
        self.said.push((command, said));
    }

    async fn row(mut self, expected: &Expected, key: &str) -> Shown {
        let first = self.subject.first(key);
        let with = |order| Sent {
            order,
            ..first.clone()
        };
        let twice = |card| vec![with(Order::Card(card)), with(Order::Card(card))];
        let steps = match expected.row {
            "Missing" => vec![Sent {
                key: None,
                ..first.clone()
            }],
            "Malformed" => vec![Sent {
                key: Some(expected.key.to_owned()),
                ..first.clone()
            }],
            "First" | "Replay" => vec![first.clone()],
            "Rewritten" => vec![with(Order::Rewritten)],
            "WithNull" => vec![with(Order::WithNull)],
            "OtherContext" => vec![Sent {
                has_other_context: true,
                ..first.clone()
            }],
            "OtherBody" => vec![with(Order::Other)],
            "Elsewhere" => vec![Sent {
                is_elsewhere: true,
                ..first.clone()
            }],
            "OtherAccount" => vec![Sent {
                account: "bob",
                ..first.clone()
            }],
            "Rejected" => twice("declined"),
            "Limited" => twice("limited"),
            "Broken" => twice("broken"),
            "Business" => twice("unpaid"),
            "Transient" => twice("transient"),
            "NoFirstSent" => vec![Sent {
                first_sent: "",
                ..first.clone()
            }],
            "OldFirstSent" => {
                vec![Sent {
                    first_sent: "Sat, 01 Jan 1994 00:00:00 GMT",
                    ..first.clone()
                }]
            }
            "Get" => vec![Sent {
                method: "GET",
                ..first.clone()
            }],
            "NewId" => vec![Sent {
                id: 8,
                ..first.clone()
            }],
            "Batch" => vec![Sent {
                is_batch: true,
                ..first.clone()
            }],
            "SignedWithOther" => {
                let headers = ["Signature: sig1=:YQ==:", "Idempotency-Key: another-key"];
                let headers = headers.map(str::to_owned).to_vec();
                vec![Sent {
                    headers,
                    ..first.clone()
                }]
            }
            "InFlight" | "InFlightOther" => return self.in_flight(expected, &first).await,
            "Expired" => return self.expired(expected, &first).await,
            "StoreDown" => return self.store_down(expected, &first).await,
            "Unsupported" => return self.unsupported(expected, &first).await,
            row => panic!("no row: {row}"),
        };
        let mut runs = self.server.runs();
        for sent in &steps {
            runs = self.server.runs();
            self.send(sent).await;
        }
        self.shown(expected, runs)
    }

    /// Sends a request while the first one with its key runs.
    async fn in_flight(mut self, expected: &Expected, first: &Sent) -> Shown {
        let slow = Sent {
            order: Order::Card("slow"),
            ..first.clone()
        };
        let runs = self.server.runs();
        let command = self.subject.command(&slow);
        let running = curl::run(&command, self.server.address);
        let beside = async {
            until(async || self.server.runs() > runs).await;
            let other = match expected.row {
                "InFlightOther" => first.clone(),
                _ => slow.clone(),
            };
            let runs = self.server.runs();
            let mut run = Run {
                subject: self.subject,
                server: self.server,
                said: Vec::new(),
            };
            run.send(&other).await;
            self.server.end_slow_payments();
            (run.said, runs)
        };
        let (ended, (said, runs)) = tokio::join!(running, beside);
        assert!(ended.status() < 300, "{}", ended.0);
        self.said = said;
        self.shown(expected, runs)
    }

    /// Sends a request until its answer is no longer replayed.
    async fn expired(mut self, expected: &Expected, first: &Sent) -> Shown {
        let policy = (self.subject.policy)()
            .with_retention(Duration::from_millis(200))
            .with_min_lifetime(Duration::ZERO);
        let server = Server::start(policy).await;
        let command = self.subject.command(first);
        curl::run(&command, server.address).await;
        assert_eq!(server.runs(), 1);
        let is_over = |said: &Said| match expected.does {
            Does::Runs => server.runs() > 1,
            _ => said.0.contains(expected.texts[0]),
        };
        let polls = async {
            loop {
                let said = curl::run(&command, server.address).await;
                if is_over(&said) {
                    return said;
                }
            }
        };
        let said = tokio::time::timeout(Duration::from_secs(20), polls).await;
        self.said
            .push((command.clone(), said.expect("it came in time")));
        let runs = usize::from(expected.does == Does::Runs) + 1;
        assert_eq!(server.runs(), runs);
        self.compare(expected);
        Shown::new(expected, self.said)
    }

    async fn store_down(mut self, expected: &Expected, first: &Sent) -> Shown {
        let runs = self.server.runs();
        self.server.store.set_fails(true);
        self.send(first).await;
        self.server.store.set_fails(false);
        self.shown(expected, runs)
    }

    async fn unsupported(mut self, expected: &Expected, first: &Sent) -> Shown {
        let policy = (self.subject.policy)().with_requirement(Requirement::Unsupported);
        let server = Server::start(policy).await;
        let mut run = Run {
            subject: self.subject,
            server: &server,
            said: Vec::new(),
        };
        run.send(first).await;
        self.said = run.said;
        assert_eq!(server.runs(), 0);
        self.compare(expected);
        Shown::new(expected, self.said)
    }

    /// Compares the last answer with the table.
    fn shown(self, expected: &Expected, runs_before: usize) -> Shown {
        self.compare(expected);
        let Expected {
            row, status, does, ..
        } = expected;
        let last = &self.said.last().unwrap().1;
        let ran = self.server.runs() - runs_before;
        let has_run = usize::from(*does == Does::Runs);
        assert_eq!(ran, has_run, "{}: {row:?}: {}", self.subject.name, last.0);
        if let [(_, first), (_, second)] = self.said.as_slice()
            && *does == Does::Replays
        {
            assert_eq!(first.body(), second.body(), "{row:?}");
            assert_eq!(first.status(), *status, "{row:?}");
        }
        Shown::new(expected, self.said)
    }

    fn compare(&self, expected: &Expected) {
        let Expected { row, status, .. } = expected;
        let (name, last) = (self.subject.name, &self.said.last().unwrap().1);
        assert_eq!(last.status(), *status, "{name}: {row:?}: {}", last.0);
        for text in &expected.texts {
            let (is_there, text) = match text.strip_prefix('!') {
                Some(text) => (!last.0.contains(text), text),
                None => (last.0.contains(text), *text),
            };
            assert!(is_there, "{name}: {row:?}: {text}: {}", last.0);
        }
    }
}
