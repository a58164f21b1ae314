//! Policies by operation: presets, files, what is refused, and reloading while runs are under way.

mod forms;
mod refused;
mod reload;
mod support;
