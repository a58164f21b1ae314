//! Bad files.
use idem_core::Policies;
#[test]
fn show() {
    for t in [
        "default]",
        "",
        "# nothing",
        "[default]",
        "lease = '3s'",
        "[default]\nlease = 30",
        "[default]\nlease = '30'",
        "[default]\nlease='31d'",
        "[default]\nlease='0s'",
        "[default]\n leese='0s'",
        "[default]\nlease='1s'\nlease='2s'",
        "[operations.a]\nlease='1s'\n[operations.a]\nlease='2s'",
        "[operations.\"pay.*.x\"]\nlease='1s'",
        "[operations.x]\npreset='biuld'\n",
        "[operations.x]\npreset='zzzzzz'\n",
        "[operations.x]\npreset='batch'\n",
        "[operations.x]\nrun='3h'\n",
        "[operations.x]\npreset='batch'\nrun='3660d'",
        "[operations.x]\nwindow='1s'\nretention='2s'",
        "[operations.x]\nwindow='-1s'",
        "[operations.x]\non_stale='never'",
        "[operations.x]\non_busy={wait='5s'}",
        "[operations.x]\non_busy={wait={limit='5'}}",
        "[operations.x]\nmax_request_bytes=-1",
        "operations=3",
        "operations.x=3",
        "[operations.x]\nmetadata={a=1}",
        "[operations.x]\nlease=2020-01-01",
        "[operations.x]\nlease=nan",
        "[default]\npatience='0s'",
        "[default]\nlease='1s'\n[operations.''.b]\nlease='2s'",
    ] {
        println!(
            "TOML {t:?}\n    {}",
            Policies::from_toml(t)
                .err()
                .map_or("ok".into(), |e| e.to_string())
        );
    }
    for t in [
        "default: [",
        "",
        "# nothing",
        "default:",
        "lease: 3s",
        "default:\n  lease: 30",
        "default:\n  lease: 31d",
        "default:\n  lease: 1s\n  lease: 2s",
        "default:\n  leese: 1s",
        "operations:\n  a:\n    lease: 1s\n  a:\n    lease: 2s",
        "operations:\n  1:\n    lease: 1s",
        "a: 1\n---\nb: 2",
        "operations:\n  x: {preset: build, window: -1s}",
        "operations:\n  x: {on_busy: {wait: {limit: 5}}}",
        "operations:\n  x: 3",
        "operations:\n  x: !tag {lease: 1s}",
        "&a a: *a",
        "default:\n\tlease: 1s",
        "operations:\n  x:\n    on_stale: never",
        "- a",
        "default: {lease: .nan}",
        "operations: {'*': {lease: 1s}}",
    ] {
        println!(
            "YAML {t:?}\n    {}",
            Policies::from_yaml(t)
                .err()
                .map_or("ok".into(), |e| e.to_string())
        );
    }
}
