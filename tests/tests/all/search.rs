//! The search is judged: by trying every order, and by histories with an altered answer.

use idem_conformance::search::{Bounds, Operation, Verdict, brute_force, explain};
use idem_conformance::spec::{Answer, Call, KeyState, Op, Span, step, unify};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Histories of each kind in a normal run.
const HISTORIES: u64 = 4_000;

/// Returns a seed, that of the variable `IDEM_SEED` or a random one, and prints it.
fn seed() -> u64 {
    let seed = std::env::var("IDEM_SEED").ok();
    let seed = seed.and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(rand::random);
    println!("IDEM_SEED={seed}");
    seed
}

struct Generator {
    random: StdRng,
    state: KeyState,
    now: i64,
    tokens: Vec<(u64, i64)>,
}

impl Generator {
    fn new(seed: u64) -> Self {
        Self {
            random: StdRng::seed_from_u64(seed),
            state: KeyState::new(),
            now: 1_000,
            tokens: vec![(1, 1)],
        }
    }

    fn call(&mut self) -> Call {
        let attempt = self.random.random_range(1..4);
        if self.random.random_bool(0.4) {
            return Call {
                op: Op::Claim {
                    fp: self.random.random_range(1..3),
                    lease: self.random.random_range(1..60),
                    ret: self.random.random_range(1..60),
                    takeover: self.random.random_bool(0.6),
                    retry: self.random.random_bool(0.5),
                },
                attempt,
                token: 0,
            };
        }
        let at = self.random.random_range(0..self.tokens.len());
        let (attempt, token) = self.tokens[at];
        let (seal, ret) = (
            self.random.random_range(1..3),
            self.random.random_range(1..60),
        );
        let op = match self.random.random_range(0..10) {
            0..3 => Op::Complete { seal, ret },
            3 => Op::Fail { seal, ret },
            4 => Op::Release,
            5 => Op::Renew { lease: ret },
            6 => Op::Save { cp: seal },
            7 => Op::Load,
            8 => Op::Sweep,
            _ => Op::Get,
        };
        Call { op, attempt, token }
    }

    /// Returns a history that the specification itself made.
    fn history(&mut self, length: usize) -> Vec<Operation> {
        let mut operations = Vec::new();
        while operations.len() < length {
            self.now += self.random.random_range(0..30);
            let call = self.call();
            let steps = step(&self.state, &call, Span::at(self.now));
            let is_skipped = call.op == Op::Sweep && self.random.random_bool(0.5);
            let answer = if is_skipped {
                Answer::Done
            } else if steps.is_empty() {
                continue;
            } else {
                let (state, pattern) = steps[self.random.random_range(0..steps.len())].clone();
                let answer = pattern.lowest();
                self.state = unify(state, &pattern, &answer).expect("its own answer");
                answer
            };
            if let Answer::Acquired { tok, .. } = answer {
                self.tokens.push((call.attempt, tok));
            }
            let invoked = self.now - self.random.random_range(0..40);
            let returned = self.now + self.random.random_range(0..40);
            let is_open = self.random.random_bool(0.1);
            operations.push(Operation {
                call,
                answer: if is_open { Answer::Unknown } else { answer },
                invoked,
                returned: (!is_open).then_some(returned),
                window: Span {
                    lo: invoked,
                    hi: if is_open { i64::MAX / 2 } else { returned },
                },
                over_step: false,
            });
        }
        operations
    }

    /// Replaces the answer to one operation.
    fn alter(&mut self, operations: &mut [Operation]) {
        let at = self.random.random_range(0..operations.len());
        let at_token = self.random.random_range(0..self.tokens.len());
        let tok = self.tokens[at_token].1 + self.random.random_range(0..2);
        let seal = self.random.random_range(1..4);
        let lease_end = self.now;
        let answers = [
            Answer::Acquired {
                tok,
                n: 1,
                lease_end,
            },
            Answer::InFlight { tok, lease_end },
            Answer::Completed { tok, seal },
            Answer::Failed { tok, seal },
            Answer::Conflict { tok, fp: seal },
            Answer::Checkpoint { cp: seal },
            Answer::Nothing,
            Answer::Done,
            Answer::Lost,
            Answer::AlreadySealed,
            Answer::NotDone,
        ];
        let kind = self.random.random_range(0..answers.len());
        operations[at].answer = answers[kind].clone();
        let returned = operations[at].returned.unwrap_or(self.now + 40);
        operations[at].returned = Some(returned);
        operations[at].window.hi = returned;
    }
}

#[test]
fn histories_of_the_specification_are_explained() {
    let seed = seed();
    for number in 0..HISTORIES {
        let history = Generator::new(seed.wrapping_add(number)).history(8);
        let verdict = explain(&history, Bounds::default());
        assert!(
            verdict.is_explained(),
            "{number}: {verdict:?}: {history:#?}"
        );
    }
}

#[test]
fn the_search_agrees_with_trying_every_order() {
    let seed = seed();
    let mut refused = 0;
    for number in 0..HISTORIES {
        let mut generator = Generator::new(seed.wrapping_add(number));
        let mut history = generator.history(7);
        generator.alter(&mut history);
        let verdict = explain(&history, Bounds::default());
        let expected = brute_force(&history, 0);
        assert_eq!(
            verdict.is_explained(),
            expected,
            "{number}: {verdict:?}: {history:#?}"
        );
        refused += u64::from(verdict.is_refused());
    }
    // Otherwise the comparison says little.
    assert!(refused > HISTORIES / 4, "only {refused} were refused");
    assert!(refused < HISTORIES * 19 / 20, "{refused} were refused");
}

#[test]
fn hidden_effects_of_one_call_agree_with_trying_every_order() {
    let seed = seed();
    let (mut needed, mut refused) = (0, 0);
    for number in 0..HISTORIES / 2 {
        let mut generator = Generator::new(seed.wrapping_add(number));
        let mut history = generator.history(5);
        generator.alter(&mut history);
        let is_claim = |operation: &&Operation| {
            matches!(operation.call.op, Op::Claim { .. })
                && !matches!(operation.answer, Answer::Unknown | Answer::NotDone)
        };
        let Some(claim) = history.iter().find(is_claim).cloned() else {
            continue;
        };
        let is_alone = explain(&history, Bounds::default()).is_explained();
        history.extend([claim.hidden(), claim.hidden()]);
        let verdict = explain(&history, Bounds::default());
        let expected = brute_force(&history, 0);
        assert_eq!(
            verdict.is_explained(),
            expected,
            "{number}: {verdict:?}: {history:#?}"
        );
        needed += u64::from(expected && !is_alone);
        refused += u64::from(!expected);
    }
    assert!(
        needed > 0 && refused > 0,
        "{needed} needed, {refused} refused"
    );
}

/// Returns a history in which everything since a random moment is lost once, by this fault.
fn with_fault(generator: &mut Generator, op: Op) -> Vec<Operation> {
    let before = generator.state.clone();
    let mut history = generator.history(4);
    let at = generator.now;
    generator.state = generator.state.lost(&before.body);
    let fault = Call {
        op,
        attempt: 0,
        token: 0,
    };
    history.push(Operation {
        call: fault,
        answer: Answer::Done,
        invoked: at - 5,
        returned: Some(at + 5),
        window: Span {
            lo: at - 5,
            hi: at + 5,
        },
        over_step: false,
    });
    history.extend(generator.history(3));
    history
}

#[test]
fn a_loss_explains_what_nothing_else_does_and_is_not_used_otherwise() {
    let seed = seed();
    let mut needed = 0;
    for number in 0..HISTORIES / 8 {
        let history = with_fault(&mut Generator::new(seed.wrapping_add(number)), Op::Loss);
        let verdict = explain(&history, Bounds::default());
        let Verdict::Explained { losses, .. } = verdict else {
            panic!("{number}: {verdict:?}: {history:#?}");
        };
        assert!(brute_force(&history, losses), "{number}: {history:#?}");
        if losses > 0 {
            assert!(!brute_force(&history, losses - 1), "{number}: {history:#?}");
            needed += 1;
        }
    }
    assert!(needed > HISTORIES / 160, "only {needed} needed the loss");
}

#[test]
fn a_search_that_gives_up_accepts_nothing() {
    let history = Generator::new(7).history(8);
    let few = Bounds {
        configurations: 1,
        open: 48,
    };
    assert!(!explain(&history, few).is_explained());
    let narrow = Bounds {
        configurations: 20_000,
        open: 0,
    };
    assert!(!explain(&history, narrow).is_explained());
    assert!(!explain(&history, narrow).is_refused());
}

#[test]
fn only_what_had_no_answer_is_taken_back() {
    let seed = seed();
    let (mut needed, mut refused) = (0, 0);
    for number in 0..HISTORIES / 8 {
        let mut generator = Generator::new(seed.wrapping_add(number));
        let mut history = with_fault(&mut generator, Op::TakeBack);
        for operation in &mut history[..4] {
            if generator.random.random_bool(0.7) {
                operation.answer = Answer::Unknown;
                operation.returned = None;
                operation.window.hi = i64::MAX / 2;
            }
        }
        match explain(&history, Bounds::default()) {
            Verdict::Explained { losses, .. } => {
                assert!(brute_force(&history, losses), "{number}: {history:#?}");
                let is_needed = losses > 0;
                assert!(
                    !is_needed || !brute_force(&history, losses - 1),
                    "{number}: {history:#?}"
                );
                needed += u64::from(is_needed);
            }
            Verdict::Refused { .. } => {
                assert!(!brute_force(&history, 1), "{number}: {history:#?}");
                refused += 1;
            }
            verdict @ Verdict::Undecided { .. } => panic!("{number}: {verdict:?}"),
        }
    }
    assert!(
        needed > 0 && refused > 0,
        "{needed} needed, {refused} refused"
    );
}

/// A takeover proves that the lease is over by the store's clock, so nothing later runs before that,
/// unless the clock was set back while it was under way.
#[test]
fn a_takeover_proves_the_time_unless_the_clock_was_set_meanwhile() {
    let claim = Op::Claim {
        fp: 1,
        lease: 1_000,
        ret: 60_000,
        takeover: true,
        retry: false,
    };
    let acquired = |tok, n, lease_end| Answer::Acquired { tok, n, lease_end };
    let calls = [
        (claim.clone(), 1, 0, acquired(1, 1, 1_000), 0),
        (claim, 2, 0, acquired(2, 2, 2_000), 5_000),
        (Op::Save { cp: 7 }, 2, 2, Answer::Done, 500),
    ];
    for over_step in [false, true] {
        let calls = calls.iter().cloned().zip((0..).step_by(10));
        let history: Vec<Operation> = calls
            .map(|((op, attempt, token, answer, hi), invoked)| Operation {
                call: Call { op, attempt, token },
                answer,
                invoked,
                returned: Some(invoked + 5),
                window: Span { lo: 0, hi },
                over_step: over_step && attempt == 2 && token == 0,
            })
            .collect();
        let verdict = explain(&history, Bounds::default());
        assert_eq!(verdict.is_explained(), over_step, "{verdict:?}");
        assert_eq!(verdict.is_refused(), !over_step, "{verdict:?}");
        assert_eq!(brute_force(&history, 0), over_step);
    }
}
