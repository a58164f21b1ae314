//! A process that is killed at any call of the store, and another that goes on.

use idem_core::engine::{Saga, SagaEnd, SagaStep, SagaStop, StepError};
use idem_core::{Outcome, RunError};

use super::support::{Life, World, key};

/// Three steps, the last of which is refused if `refuse` is set; the first two can be undone.
fn saga(world: &World, refuse: bool) -> Saga<u32> {
    let act = |name: &'static str| {
        let world = world.clone();
        move |step: SagaStep<u32>| {
            let world = world.clone();
            async move {
                world.effect(name, &step);
                tokio::task::yield_now().await;
                Ok::<_, StepError>(name.to_owned())
            }
        }
    };
    let last = {
        let world = world.clone();
        move |step: SagaStep<u32>| {
            let world = world.clone();
            async move {
                assert_eq!(
                    step.result::<String>("charge").unwrap().as_deref(),
                    Some("charge")
                );
                if refuse {
                    return Err(StepError::permanent("out of stock"));
                }
                world.effect("ship", &step);
                Ok(())
            }
        }
    };
    Saga::new()
        .step("reserve", act("reserve"))
        .undone_by(act("free"))
        .step("charge", act("charge"))
        .undone_by(act("refund"))
        .step("ship", last)
}

type Ran = Option<Result<Outcome<SagaEnd>, RunError<SagaStop, SagaEnd>>>;

fn process(world: &World, refuse: bool, life: Option<Life>) -> Ran {
    let saga = saga(world, refuse);
    world.process(life, async |idem| saga.run(&idem, &key(), 7).await)
}

/// On a busy machine the short lease may be over between two steps; the saga then returns an error
/// that requires another run.
fn unlost(run: impl Fn() -> Ran) -> Ran {
    loop {
        match run() {
            Some(Err(RunError::Work(SagaStop::Lost))) => {}
            ended => return ended,
        }
    }
}

/// Runs until no process is killed any more, and judges the effects.
fn judge(world: &World, refuse: bool, context: &str) {
    let end = unlost(|| process(world, refuse, None)).expect("it is not killed");
    let end = end
        .unwrap_or_else(|error| panic!("{context}: {error:?}"))
        .into_inner();
    let expected: &[&str] = if refuse {
        &["reserve", "charge", "refund", "free"]
    } else {
        &["reserve", "charge", "ship"]
    };
    assert_eq!(world.order(), expected, "{context}");
    assert_eq!(end.is_completed(), !refuse, "{context}");
}

/// Every life that ends before the saga does.
fn lives(refuse: bool) -> Vec<Life> {
    let mut lives = Vec::new();
    for calls in 0.. {
        for last_takes_effect in [false, true] {
            lives.push(Life {
                calls,
                last_takes_effect,
            });
        }
        let ended = unlost(|| process(&World::default(), refuse, lives.last().copied()));
        if ended.is_some() {
            return lives;
        }
    }
    lives
}

#[test]
fn killed_at_every_point_no_step_is_done_twice_and_none_is_left_out() {
    for refuse in [false, true] {
        let lives = lives(refuse);
        assert!(lives.len() > 14, "{} points only", lives.len());
        for life in lives {
            let world = World::default();
            let killed = process(&world, refuse, Some(life)).is_none();
            judge(
                &world,
                refuse,
                &format!("{life:?}, refuse {refuse}, killed {killed}"),
            );
        }
    }
}

#[test]
fn killed_twice_at_any_two_points_it_still_comes_to_its_end() {
    for refuse in [false, true] {
        let lives: Vec<_> = lives(refuse).into_iter().step_by(3).collect();
        for first in &lives {
            for second in &lives {
                let world = World::default();
                process(&world, refuse, Some(*first));
                process(&world, refuse, Some(*second));
                judge(
                    &world,
                    refuse,
                    &format!("{first:?}, {second:?}, refuse {refuse}"),
                );
            }
        }
    }
}
