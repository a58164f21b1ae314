//! A real Redis and a real Valkey, started, killed, frozen, watched by a sentinel and thrown away. Shown as ignored,
//! with the reason, where there is none; `cargo xtask test` gets them on Debian.

mod redis_client;
mod support;

use std::process::Command;
use std::time::Duration;

use idem_servers::{
    Durability, ErrorKind, Instance, Options, RedisSentinel, Transport, server, start_private,
};
use libtest_mimic::Failed;
use redis_client::{ask_with, eventually};
use support::{Outcome, Run, trials};

const REDIS: &[(&str, Run)] = &[
    ("redis_keeps_values_over_a_kill_and_a_restart", || {
        keeps_values("redis")
    }),
    ("redis_says_its_name_and_version", || {
        is_named("redis", "Redis")
    }),
    ("redis_lets_a_client_in_that_checks_its_certificate", || {
        speaks_tls("redis")
    }),
    ("redis_takes_settings_by_their_names", takes_settings),
    ("redis_answers_again_when_it_is_thawed", is_thawed),
    (
        "a_frozen_redis_is_killed_restarted_and_dropped",
        frozen_is_dropped,
    ),
    (
        "a_sentinel_hands_over_to_the_replica_of_a_killed_master",
        sentinel_hands_over,
    ),
];
const VALKEY: &[(&str, Run)] = &[
    ("valkey_keeps_values_over_a_kill_and_a_restart", || {
        keeps_values("valkey")
    }),
    ("valkey_says_its_name_and_version", || {
        is_named("valkey", "Valkey")
    }),
    (
        "valkey_lets_a_client_in_that_checks_its_certificate",
        || speaks_tls("valkey"),
    ),
];

fn main() {
    let mut all = trials("redis", "redis-cli", REDIS);
    all.extend(trials("valkey", "redis-cli", VALKEY));
    support::main(all);
}

fn ask(instance: &Instance, command: &str) -> Result<String, Failed> {
    ask_with(instance.url(), &[], command)
}

fn keeps_values(name: &str) -> Outcome {
    let options = Options::new().with_durability(Durability::Durable);
    let mut instance = start_private(name, &options)?;
    let url = instance.url().to_owned();
    ask(&instance, "SET k 1")?;
    instance.kill()?;
    assert!(ask(&instance, "PING").is_err(), "it still answers");
    instance.restart()?;
    assert_eq!(ask(&instance, "GET k")?, "1");
    ask(&instance, "SET k 2")?;
    instance.pause()?;
    instance.restart()?;
    assert_eq!(instance.url(), url);
    assert_eq!(ask(&instance, "GET k")?, "2");
    Ok(())
}

fn is_named(name: &str, product: &str) -> Outcome {
    let instance = start_private(name, &Options::new())?;
    assert_eq!(instance.product().name, product);
    let version = instance.product().version.clone().ok_or("no version")?;
    let told = ask(&instance, "INFO server")?;
    assert!(
        told.contains(&format!("{name}_version:{version}")),
        "{told}"
    );
    assert_eq!(ask(&instance, "CONFIG GET appendonly")?, "appendonly\nno");
    let folder = ask(&instance, "CONFIG GET dir")?;
    let folder = folder.lines().nth(1).ok_or("no folder")?;
    assert!(std::path::Path::new(folder).exists());
    instance.stop()?;
    assert!(!std::path::Path::new(folder).exists());
    Ok(())
}

fn speaks_tls(name: &str) -> Outcome {
    let instance = start_private(name, &Options::new().with_transport(Transport::Tls))?;
    let url = instance.tls_url().ok_or("no TLS")?;
    assert!(url.starts_with("rediss://localhost:"), "{url}");
    let authority = instance.ca_certificate().ok_or("no certificate")?;
    let authority = authority.to_str().ok_or("no path")?;
    ask(&instance, "SET k 1")?;
    assert_eq!(ask_with(&url, &["--cacert", authority], "GET k")?, "1");
    assert!(ask_with(&url, &[], "GET k").is_err(), "nobody checks it");
    Ok(())
}

fn takes_settings() -> Outcome {
    let options = Options::new()
        .with_setting("maxmemory", "3mb")
        .with_setting("maxmemory-policy", "allkeys-random");
    let instance = start_private("redis", &options)?;
    let told = ask(&instance, "CONFIG GET maxmemory*")?;
    assert!(
        told.contains("3145728") && told.contains("allkeys-random"),
        "{told}"
    );
    let refused = start_private("mariadb", &options).err().ok_or("ignored")?;
    assert_eq!(refused.kind(), ErrorKind::Setting);
    Ok(())
}

fn is_thawed() -> Outcome {
    let mut instance = start_private("redis", &Options::new())?;
    ask(&instance, "SET k 1")?;
    instance.freeze()?;
    let mut client = Command::new("redis-cli");
    let mut waiting = client.args(["-u", instance.url(), "GET", "k"]).spawn()?;
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(waiting.try_wait()?, None, "a frozen server answered");
    instance.thaw()?;
    assert!(waiting.wait()?.success());
    assert_eq!(ask(&instance, "GET k")?, "1");
    Ok(())
}

fn frozen_is_dropped() -> Outcome {
    let mut instance = start_private("redis", &Options::new())?;
    instance.freeze()?;
    instance.kill()?;
    instance.restart()?;
    instance.freeze()?;
    instance.restart()?;
    assert_eq!(ask(&instance, "PING")?, "PONG");
    instance.freeze()?;
    let url = instance.url().to_owned();
    drop(instance);
    assert!(server("redis")?.probe(&url).is_err(), "it still answers");
    Ok(())
}

fn sentinel_hands_over() -> Outcome {
    let mut master = start_private("redis", &Options::new())?;
    let replica = start_private("redis", &Options::new())?;
    let port = |url: &str| url.rsplit(':').next().unwrap_or_default().to_owned();
    ask(
        &replica,
        &format!("REPLICAOF 127.0.0.1 {}", port(master.url())),
    )?;
    let follows = |told: &str| told.contains("master_link_status:up");
    eventually("the replica follows", || {
        ask(&replica, "INFO replication").is_ok_and(|told| follows(&told))
    })?;
    ask(&master, "SET k 1")?;
    assert_eq!(ask(&master, "WAIT 1 10000")?, "1");

    let options = Options::new().with_upstream(master.url());
    let sentinel = start_private("redis-sentinel", &options)?;
    assert_eq!(sentinel.product().name, "Redis Sentinel");
    let question = format!("SENTINEL GET-MASTER-ADDR-BY-NAME {}", RedisSentinel::MASTER);
    let told = ask(&sentinel, &question)?;
    assert_eq!(told.lines().nth(1), Some(port(master.url()).as_str()));
    master.kill()?;
    eventually("the replica takes over", || {
        ask(&replica, "SET k 2").is_ok()
    })?;
    let successor = port(replica.url());
    eventually("the sentinel says so", || {
        ask(&sentinel, &question).is_ok_and(|told| told.lines().nth(1) == Some(&successor))
    })?;
    master.restart()?;
    let result = eventually("the old master follows the new one", || {
        ask(&master, "GET k").is_ok_and(|value| value == "2")
            && ask(&master, "INFO replication").is_ok_and(|told| follows(&told))
    });
    if result.is_err() {
        for (i, q) in [
            (&sentinel, "INFO sentinel"),
            (&sentinel, "SENTINEL MASTERS"),
            (&sentinel, "SENTINEL REPLICAS idem"),
            (&master, "INFO replication"),
            (&replica, "INFO replication"),
        ] {
            println!("== {q}: {:?}", ask(i, q));
        }
    }
    result
}
