//! Private servers.

/// Returns whether the programs of these servers are on this machine; says which are not.
///
/// # Panics
///
/// When a missing one is required by `IDEM_REQUIRE`.
pub(crate) fn are_here(names: &[&str]) -> bool {
    let required = std::env::var("IDEM_REQUIRE").unwrap_or_default();
    names.iter().all(|name| {
        let is_here = idem_servers::server(name).unwrap().programs().is_some();
        if !is_here {
            println!("not run: no programs of {name} on this machine");
            let is_required = required.split(',').any(|required| required.trim() == *name);
            assert!(!is_required, "IDEM_REQUIRE names {name}");
        }
        is_here
    })
}
