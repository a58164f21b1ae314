//! What a protected store keeps, and what it gives back. The suite runs behind it, too, as the
//! targets `…-protected`.

mod admin;
mod forms;
mod peppers;
mod rewrap;
mod rotation;
mod sealed;
mod support;
