//! Several processes hammer the same operations with retries and crash while they do; every effect
//! has to happen exactly once. See [`idem_examples::storm`].

use std::process::ExitCode;

fn main() -> ExitCode {
    idem_examples::storm::main()
}
