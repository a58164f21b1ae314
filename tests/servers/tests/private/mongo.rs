//! MongoDB, or the server that speaks its protocol here. There is no client: the store's own tests
//! check what it keeps.

use idem_servers::{Durability, Options, Transport, server, start_private};

use crate::common::{is_refused, is_silent};
use crate::{Outcome, Run, cases};

pub(crate) const TRIALS: &[(&str, Run)] = cases![
    mongo_says_what_answers_in_which_version,
    mongo_answers_again_after_a_kill_and_a_restart,
    mongo_answers_again_when_it_is_thawed,
    mongo_refuses_what_it_cannot_be_started_with,
];

fn mongo_says_what_answers_in_which_version() -> Outcome {
    let instance = start_private("mongo", &Options::new())?;
    let product = instance.product();
    assert!(product.version.is_some(), "{product}");
    let known = ["MongoDB", "secantusd (MongoDB-compatible)"];
    assert!(known.contains(&product.name.as_str()), "{product}");
    let plain = instance.url().split('?').next().unwrap_or_default();
    assert_eq!(server("mongo")?.probe(plain)?, *product);
    let url = instance.url().to_owned();
    drop(instance);
    is_silent("mongo", &url)
}

fn mongo_answers_again_after_a_kill_and_a_restart() -> Outcome {
    let options = Options::new().with_durability(Durability::Durable);
    let mut instance = start_private("mongo", &options)?;
    let url = instance.url().to_owned();
    instance.kill()?;
    is_silent("mongo", &url)?;
    for _ in 0..2 {
        instance.restart()?;
        assert_eq!(instance.url(), url);
        assert_eq!(server("mongo")?.probe(&url)?, *instance.product());
    }
    Ok(())
}

fn mongo_answers_again_when_it_is_thawed() -> Outcome {
    let mut instance = start_private("mongo", &Options::new())?;
    let url = instance.url().to_owned();
    instance.freeze()?;
    is_silent("mongo", &url)?;
    instance.thaw()?;
    server("mongo")?.probe(&url)?;
    instance.freeze()?;
    drop(instance);
    is_silent("mongo", &url)
}

fn mongo_refuses_what_it_cannot_be_started_with() -> Outcome {
    is_refused("mongo", &Options::new().with_transport(Transport::Tls))?;
    is_refused(
        "mongo",
        &Options::new().with_setting("ttlMonitorSleepSecs", "1"),
    )
}
