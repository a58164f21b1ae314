//! Each preset, as `curl` sees a server behind it.
//!
//! A test runs the rows of the preset's table against a server, compares each answer with the
//! table, and then all of it with the page in the preset's documentation. `IDEM_BLESS=1` writes the
//! pages again; the tables are written by hand.

mod commerce;
mod conformance;
mod curl;
mod others;
mod page;
mod row;
mod rpc;
mod server;
mod subject;
