//! Files of policies.

use idem_core::engine::PolicyFileError;
use idem_core::{Limits, Policies};

/// What is accepted keeps the limits; an error names a place, unless it is about the whole file: a
/// second document.
fn examine(read: Result<Policies, PolicyFileError>) {
    match read {
        Ok(policies) => {
            policies.check(&Limits::DEFAULT).unwrap();
            for (operation, policy) in policies.operations() {
                policy.check(&Limits::DEFAULT).unwrap();
                // A pattern such as `jobs.*` is the name of operations, not of one.
                if !operation.contains('*') {
                    assert_eq!(&**policies.policy_for(&operation), policy);
                }
            }
        }
        Err(error) => {
            let names_place = error.line().is_some() || error.key().is_some();
            let is_of_file = error.reason().contains("more than one document");
            assert!(names_place || is_of_file, "{error}");
            assert!(
                error.line() != Some(0) && error.column() != Some(0),
                "{error}"
            );
        }
    }
}

#[test]
fn toml() {
    check!("policies::toml", |bytes: &[u8]| {
        if let Ok(text) = std::str::from_utf8(bytes) {
            examine(Policies::from_toml(text));
        }
    });
}

#[test]
fn yaml() {
    check!("policies::yaml", |bytes: &[u8]| {
        if let Ok(text) = std::str::from_utf8(bytes) {
            examine(Policies::from_yaml(text));
        }
    });
}
