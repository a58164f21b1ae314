//! Redis, frozen, with settings, and watched by a sentinel.

use std::process::Command;
use std::time::Duration;

use idem_servers::{Instance, Options, RedisSentinel, start_private};

use crate::common::{Database, is_refused, is_silent};
use crate::{Outcome, Run, cases, eventually, output};

pub(crate) static REDIS: Database = Database {
    name: "redis",
    client: "redis-cli",
    ask: |url, command| ask_with(url, &[], command),
    write: "SET k 1",
    read: "GET k",
    rewrite: "SET k 2",
    version: "INFO server",
    folder: "CONFIG GET dir",
    durable: ("CONFIG GET appendfsync", "appendfsync\nalways"),
    fast: &[("CONFIG GET appendonly", "appendonly\nno")],
    tls: speaks_tls,
};

pub(crate) static VALKEY: Database = Database {
    name: "valkey",
    ..REDIS
};

pub(crate) const TRIALS: &[(&str, Run)] = cases![
    redis_takes_settings_by_their_names,
    redis_answers_again_when_it_is_thawed,
    a_frozen_redis_is_killed_restarted_and_dropped,
    a_sentinel_hands_over_to_the_replica_of_a_killed_master,
];

/// Returns the answer of the server at `url` to a command, with more options for the client.
pub(crate) fn ask_with(url: &str, options: &[&str], command: &str) -> Outcome<String> {
    let mut client = Command::new("redis-cli");
    client.args(["-u", url, "-e"]).args(options);
    output(client.args(command.split(' ')))
}

fn ask(instance: &Instance, command: &str) -> Outcome<String> {
    ask_with(instance.url(), &[], command)
}

fn speaks_tls(server: &Instance, authority: &str) -> Outcome {
    let url = server.tls_url().ok_or("no TLS")?;
    assert!(url.starts_with("rediss://localhost:"), "{url}");
    ask(server, "SET k 1")?;
    let trusting = ask_with(&url, &["--cacert", authority], "GET k")?;
    assert_eq!(trusting, "1");
    assert!(ask_with(&url, &[], "GET k").is_err(), "nobody checks it");
    Ok(())
}

fn redis_takes_settings_by_their_names() -> Outcome {
    let options = Options::new()
        .with_setting("maxmemory", "3mb")
        .with_setting("maxmemory-policy", "allkeys-random");
    let instance = start_private("redis", &options)?;
    let returned = ask(&instance, "CONFIG GET maxmemory*")?;
    assert!(
        returned.contains("3145728") && returned.contains("allkeys-random"),
        "{returned}"
    );
    is_refused("mariadb", &options)
}

fn redis_answers_again_when_it_is_thawed() -> Outcome {
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

fn a_frozen_redis_is_killed_restarted_and_dropped() -> Outcome {
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
    is_silent("redis", &url)
}

fn a_sentinel_hands_over_to_the_replica_of_a_killed_master() -> Outcome {
    let mut master = start_private("redis", &Options::new())?;
    let replica = start_private("redis", &Options::new())?;
    let port = |url: &str| url.rsplit(':').next().unwrap_or_default().to_owned();
    ask(
        &replica,
        &format!("REPLICAOF 127.0.0.1 {}", port(master.url())),
    )?;
    let follows = |returned: &str| returned.contains("master_link_status:up");
    eventually("the replica follows", || {
        ask(&replica, "INFO replication").is_ok_and(|returned| follows(&returned))
    })?;
    ask(&master, "SET k 1")?;
    assert_eq!(ask(&master, "WAIT 1 10000")?, "1");

    let options = Options::new().with_upstream(master.url());
    let sentinel = start_private("redis-sentinel", &options)?;
    assert_eq!(sentinel.product().name, "Redis Sentinel");
    let question = format!("SENTINEL GET-MASTER-ADDR-BY-NAME {}", RedisSentinel::MASTER);
    let returned = ask(&sentinel, &question)?;
    assert_eq!(returned.lines().nth(1), Some(port(master.url()).as_str()));
    master.kill()?;
    eventually("the replica takes over", || {
        ask(&replica, "SET k 2").is_ok()
    })?;
    let successor = port(replica.url());
    eventually("the sentinel says so", || {
        ask(&sentinel, &question).is_ok_and(|returned| returned.lines().nth(1) == Some(&successor))
    })?;
    master.restart()?;
    eventually("the old master follows the new one", || {
        ask(&master, "GET k").is_ok_and(|value| value == "2")
            && ask(&master, "INFO replication").is_ok_and(|returned| follows(&returned))
    })
}
