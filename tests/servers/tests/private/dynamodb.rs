//! An imitation of DynamoDB. There is no client: the store's own tests check what it keeps.

use idem_servers::{Options, Transport, server, start_private};

use crate::common::{is_refused, is_silent};
use crate::{Outcome, Run, cases};

pub(crate) const TRIALS: &[(&str, Run)] = cases![
    dynamodb_says_what_answers_in_which_version,
    dynamodb_answers_again_after_a_kill_and_a_restart,
    dynamodb_refuses_what_it_cannot_be_started_with,
];

fn dynamodb_says_what_answers_in_which_version() -> Outcome {
    let instance = start_private("dynamodb", &Options::new())?;
    let product = instance.product();
    assert!(product.name.contains("imitation"), "{product}");
    let url = instance.url().to_owned();
    assert_eq!(server("dynamodb")?.probe(&url)?, *product);
    drop(instance);
    is_silent("dynamodb", &url)
}

fn dynamodb_answers_again_after_a_kill_and_a_restart() -> Outcome {
    let mut instance = start_private("dynamodb", &Options::new())?;
    let url = instance.url().to_owned();
    instance.kill()?;
    is_silent("dynamodb", &url)?;
    for _ in 0..2 {
        instance.restart()?;
        assert_eq!(instance.url(), url);
        assert_eq!(server("dynamodb")?.probe(&url)?, *instance.product());
    }
    Ok(())
}

fn dynamodb_refuses_what_it_cannot_be_started_with() -> Outcome {
    is_refused("dynamodb", &Options::new().with_transport(Transport::Tls))?;
    is_refused("dynamodb", &Options::new().with_setting("any", "1"))
}
