//! MongoDB, or the server that speaks its protocol here. There is no client: the store's own tests
//! check what it keeps.

use idem_servers::{Durability, ErrorKind, Options, Transport, server, start_private};

use crate::{Outcome, Run};

pub(crate) const TRIALS: &[(&str, Run)] = &[
    ("mongo_says_what_answers_in_which_version", is_named),
    ("mongo_answers_again_after_a_kill_and_a_restart", comes_back),
    ("mongo_answers_again_when_it_is_thawed", is_thawed),
    ("mongo_refuses_what_it_cannot_be_started_with", refuses),
];

fn is_named() -> Outcome {
    let mongo = server("mongo")?;
    let instance = start_private("mongo", &Options::new())?;
    let product = instance.product();
    assert!(product.version.is_some(), "{product}");
    assert!(
        ["MongoDB", "secantusd (MongoDB-compatible)"].contains(&product.name.as_str()),
        "{product}"
    );
    let plain = instance.url().split('?').next().unwrap_or_default();
    assert_eq!(mongo.probe(plain)?, *product);
    let url = instance.url().to_owned();
    instance.stop()?;
    assert!(mongo.probe(&url).is_err(), "it still answers");
    Ok(())
}

fn comes_back() -> Outcome {
    let mongo = server("mongo")?;
    let options = Options::new().with_durability(Durability::Durable);
    let mut instance = start_private("mongo", &options)?;
    let url = instance.url().to_owned();
    instance.kill()?;
    assert!(mongo.probe(&url).is_err(), "it still answers");
    instance.restart()?;
    instance.pause()?;
    assert!(mongo.probe(&url).is_err(), "it still answers");
    instance.restart()?;
    assert_eq!(instance.url(), url);
    assert_eq!(mongo.probe(&url)?, *instance.product());
    Ok(())
}

fn is_thawed() -> Outcome {
    let mongo = server("mongo")?;
    let mut instance = start_private("mongo", &Options::new())?;
    instance.freeze()?;
    let answer = mongo.probe(instance.url());
    assert!(answer.is_err(), "a frozen server answered");
    instance.thaw()?;
    mongo.probe(instance.url())?;
    instance.freeze()?;
    Ok(instance.stop()?)
}

fn refuses() -> Outcome {
    let tls = Options::new().with_transport(Transport::Tls);
    let settings = Options::new().with_setting("ttlMonitorSleepSecs", "1");
    for options in [tls, settings] {
        let refused = start_private("mongo", &options).err().ok_or("ignored")?;
        assert_eq!(refused.kind(), ErrorKind::Setting);
    }
    Ok(())
}
