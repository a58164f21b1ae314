//! `idem-containers serve postgres`: one database in a container, until a signal ends it.
//!
//! Prints one line of JSON when the database answers, `{"url": …, "product": …, "version": …,
//! "container": …}`. Ends, removing the container, on SIGTERM, on SIGINT, or when its standard
//! input closes; with `--stay` only on signals. The image is the official one with a pinned tag, or
//! the one that `IDEM_POSTGRES_IMAGE` names.
//!
//! It is a separate program because testcontainers is large, and nothing else has to be built with
//! it.

mod place;
mod serve;

use std::process::ExitCode;

use serve::{Serve, Stay};

const USAGE: &str = "usage: idem-containers serve NAME [--stay]";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let serve = match arguments.as_slice() {
        ["serve", name] => Serve::new(name, Stay::WhileStdinIsOpen),
        ["serve", name, "--stay"] => Serve::new(name, Stay::UntilSignalled),
        _ => Err(USAGE.into()),
    };
    let result = match serve {
        Ok(serve) => serve.run().await,
        Err(error) => Err(error),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", with_causes(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        // testcontainers repeats the cause's text in its own.
        if !text.contains(&error.to_string()) {
            text = format!("{text}: {error}");
        }
        cause = error.source();
    }
    text
}
