//! Several processes repeat the same operations with retries, and crash meanwhile; every effect has
//! to happen exactly once. See [`idem_storm::storm`].

use std::process::ExitCode;

fn main() -> ExitCode {
    idem_storm::storm::main()
}
