//! Webhooks of every provider.

mod adcp;
mod cloud_events;
mod custom;
mod documents;
mod providers;
mod receiver;
mod signatures;
mod standard_webhooks;
mod support;
mod transactions;
mod twilio;
