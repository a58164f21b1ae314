//! Policies: presets, names, and the forms of a file.

use std::collections::BTreeMap;
use std::time::Duration;

use idem_core::engine::InterruptPolicy;
use idem_core::engine::PolicyFile;
use idem_core::{
    BusyPolicy, ErrorPolicy, FailedPolicy, Idempotency, Key, MemoryStore, Metadata, Policies,
    Policy, StalePolicy,
};

use super::support::{Folder, lease, lease_of};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

const IN_TOML: &str = r#"
[default]
lease = "20s"
retry_timeout = "3s"

[operations."payments.create"]
preset = "at_most_once"
retention = "72h"
failure_retention = "96h"
on_busy = { wait = { limit = "5s" } }
max_request_bytes = 65536
max_result_bytes = 1048576
metadata = { owner = "billing" }

[operations."jobs.*"]
preset = "build"
window = "90s"

[operations.import]
preset = "batch"
run = "2h"

[operations.mail]
on_busy = { wait = "750ms" }
on_error = "record"
on_cancel = "let_expire"
on_panic = "record"
on_stale = "fail"
on_failed = "retry"
"#;

const IN_YAML: &str = r#"
default: {lease: 20s, retry_timeout: 3s}
operations:
  payments.create:
    preset: at_most_once
    retention: 72h
    failure_retention: 96h
    on_busy: {wait: {limit: 5s}}
    max_request_bytes: 65536
    max_result_bytes: 1048576
    metadata: {owner: billing}
  jobs.*: {preset: build, window: 90s}
  import: {preset: batch, run: 2h}
  mail:
    on_busy: {wait: 750ms}
    on_error: record
    on_cancel: let_expire
    on_panic: record
    on_stale: fail
    on_failed: retry
"#;

fn in_code() -> Policies {
    let default = Policy::default()
        .with_lease(MINUTE / 3)
        .with_retry_timeout(MINUTE / 20);
    let payment = Policy::at_most_once()
        .with_retention(HOUR * 72)
        .with_failure_retention(HOUR * 96)
        .with_on_busy(BusyPolicy::wait(MINUTE / 12))
        .with_max_request_bytes(65536)
        .with_max_result_bytes(1 << 20)
        .with_metadata(Metadata::new().with("owner", "billing"));
    // A policy without a preset is based on the default.
    let mail = default
        .clone()
        .with_on_busy(BusyPolicy::wait(Duration::from_millis(750)))
        .with_on_error(ErrorPolicy::Record)
        .with_on_cancel(InterruptPolicy::LetExpire)
        .with_on_panic(InterruptPolicy::Record)
        .with_on_stale(StalePolicy::Fail)
        .with_on_failed(FailedPolicy::Retry);
    Policies::new(default)
        .with_operation("payments.create", payment)
        .with_operation("jobs.*", Policy::build().with_retention(MINUTE * 3 / 2))
        .with_operation("import", Policy::batch(HOUR * 2))
        .with_operation("mail", mail)
}

#[test]
fn toml_yaml_and_code_say_the_same() {
    assert_eq!(Policies::from_toml(IN_TOML).unwrap(), in_code());
    assert_eq!(Policies::from_yaml(IN_YAML).unwrap(), in_code());
    let folder = Folder::new();
    for (name, text) in [("a.TOML", IN_TOML), ("a.yaml", IN_YAML), ("a.yml", IN_YAML)] {
        let path = folder.write(name, text);
        assert_eq!(Policies::from_file(&path).unwrap(), in_code());
        assert_eq!(*PolicyFile::load(path).unwrap().policies(), in_code());
    }
}

#[test]
fn every_preset_of_code_has_its_name_in_files() {
    let presets = [
        ("default", Policy::default(), 24 * 3600),
        ("at_most_once", Policy::at_most_once(), 24 * 3600),
        ("build", Policy::build(), 60),
        ("fix", Policy::fix(), 30),
        ("deploy", Policy::deploy(), 300),
        ("delete", Policy::delete(), 600),
        ("api_write", Policy::api_write(), 24 * 3600),
        ("webhook", Policy::webhook(), 14 * 24 * 3600),
        ("batch", Policy::batch(HOUR), 25 * 3600),
    ];
    for (name, policy, retention) in presets {
        let run = if name == "batch" { "run = \"1h\"" } else { "" };
        let text = format!("[operations.x]\npreset = \"{name}\"\n{run}");
        let policies = Policies::from_toml(&text).unwrap();
        assert_eq!(**policies.policy_for("x"), policy, "{name}");
        assert_eq!(policy.retention().as_secs(), retention, "{name}");
    }
}

#[test]
fn of_a_ghost_job_failed_and_cancelled_are_no_duplicates() {
    for policy in [
        Policy::build(),
        Policy::fix(),
        Policy::deploy(),
        Policy::delete(),
    ] {
        assert_eq!(policy.on_error(), ErrorPolicy::Release);
        assert_eq!(policy.on_cancel(), InterruptPolicy::Release);
        assert_eq!(policy.on_panic(), InterruptPolicy::Release);
        assert_eq!(policy.on_failed(), FailedPolicy::Retry);
        assert_eq!(policy.on_busy(), BusyPolicy::Refuse);
    }
}

#[test]
fn an_exact_name_wins_and_then_the_longest_prefix() {
    let with = |seconds| Policy::default().with_lease(Duration::from_secs(seconds));
    let policies = Policies::new(with(1))
        .with_operation("pay*", with(2))
        .with_operation("payments.*", with(3))
        .with_operation("payments.create", with(4))
        .with_operation("refund*", with(9))
        .with_operation("refund*", with(5));
    for (operation, seconds) in [
        ("mail", 1),
        ("pa", 1),
        ("pay", 2),
        ("payments", 2),
        ("payments.", 3),
        ("payments.create", 4),
        ("payments.create2", 3),
        ("refunds", 5),
    ] {
        let lease = policies.policy_for(operation).lease();
        assert_eq!(lease.as_secs(), seconds, "{operation}");
    }
    let named: BTreeMap<_, _> = policies.operations().collect();
    let names = ["pay*", "payments.*", "payments.create", "refund*"];
    assert!(named.keys().eq(&names));
    assert_eq!(named["refund*"].lease().as_secs(), 5);
}

#[test]
fn a_file_overrides_the_policies_set_in_code() {
    let folder = Folder::new();
    let base = Policies::new(Policy::webhook())
        .with_operation("a", Policy::fix())
        .with_operation("b", Policy::build());
    let text = format!("{}[operations.b]\npreset = \"delete\"", lease(9));
    let file = PolicyFile::load_over(folder.write("p.toml", &text), base).unwrap();
    let policies = file.policies();
    assert_eq!(**policies.policy_for("a"), Policy::fix());
    assert_eq!(**policies.policy_for("b"), Policy::delete());
    let default = Policy::webhook().with_lease(Duration::from_secs(9));
    assert_eq!(**policies.default_policy(), default);
    // An entry that is removed from the file falls back to the code's.
    folder.write("p.toml", &lease(10));
    assert!(file.reload().unwrap());
    assert_eq!(**file.policies().policy_for("b"), Policy::build());
    assert_eq!(lease_of(&file), 10);
}

#[test]
fn an_unbounded_policy_in_code_can_be_extended() {
    let endless = Policy::default()
        .with_retry_timeout(Duration::MAX)
        .with_on_busy(BusyPolicy::wait(Duration::MAX));
    let folder = Folder::new();
    let path = folder.write("p.toml", &lease(9));
    let file = PolicyFile::load_over(path, Policies::new(endless)).unwrap();
    let retry_timeout = file.policies().default_policy().retry_timeout();
    assert!(retry_timeout > HOUR * 24 * 365 * 1000, "{retry_timeout:?}");
}

#[test]
fn setters_in_code_change_one_thing_each() {
    let key = |operation| Key::new("s", operation, "i").unwrap();
    let idem = Idempotency::new(MemoryStore::new())
        .with_operation_policy("jobs.*", Policy::fix())
        .with_policy(Policy::webhook());
    assert_eq!(*idem.policy_for(&key("jobs.x")), Policy::fix());
    assert_eq!(*idem.policy_for(&key("x")), Policy::webhook());
    let other = idem.clone().with_policies(in_code());
    assert_eq!(*other.policies(), in_code());
    assert_eq!(*idem.policy_for(&key("jobs.x")), Policy::fix());
}

#[test]
fn the_example_in_the_documentation_is_read() {
    let source = include_str!("../../../src/engine/policies/file.rs");
    let (_, text) = source.split_once("/// ```toml\n").unwrap();
    let (text, _) = text.split_once("/// ```").unwrap();
    let text = text.replace("///", "");
    let policies = Policies::from_toml(&text).unwrap();
    let payment = policies.policy_for("payments.create");
    assert_eq!(payment.on_busy(), BusyPolicy::wait(MINUTE / 12));
    assert_eq!(payment.retention(), HOUR * 72);
    assert_eq!(policies.policy_for("jobs.x").retention(), MINUTE * 3 / 2);
}
