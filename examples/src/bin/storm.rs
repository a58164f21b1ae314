//! Several processes repeat the same operations with retries, and crash meanwhile; every effect has
//! to happen exactly once. See [`idem_examples::storm`].

use std::process::ExitCode;

fn main() -> ExitCode {
    idem_examples::storm::main()
}
