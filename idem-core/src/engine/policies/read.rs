//! Reads a document into [`Policies`].

use std::sync::LazyLock;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::{Policy, duration_text};
use super::format::{Format, written};
use super::names::{policy_keys, unknown};
use super::preset::{PRESETS, named};
use super::{Policies, PolicyFileError};
use crate::{Key, Limits};

/// The fault of the key at the end of a path.
struct Fault {
    path: Vec<String>,
    reason: String,
}

type Table = Map<String, Value>;

static EMPTY: LazyLock<Table> = LazyLock::new(Map::new);

impl Policies {
    /// Reads policies from a TOML text; see [`PolicyFile`](crate::engine::PolicyFile) for its form.
    ///
    /// # Errors
    ///
    /// [`PolicyFileError`] with line and key for a text that is not TOML, a key that is unknown or
    /// given twice, and a value that is invalid or outside its limits.
    #[cfg(feature = "toml")]
    pub fn from_toml(text: &str) -> Result<Self, PolicyFileError> {
        read(Format::Toml, text, Self::default(), &Limits::DEFAULT)
    }

    /// Reads policies from a YAML text, of the same form.
    ///
    /// # Errors
    ///
    /// As for a TOML text.
    #[cfg(feature = "yaml")]
    pub fn from_yaml(text: &str) -> Result<Self, PolicyFileError> {
        read(Format::Yaml, text, Self::default(), &Limits::DEFAULT)
    }
}

/// Returns the base, overlaid with the text.
pub(super) fn read(
    format: Format,
    text: &str,
    base: Policies,
    limits: &Limits,
) -> Result<Policies, PolicyFileError> {
    let tree = format.tree(text)?;
    document(&tree, base, limits).map_err(|fault| {
        let key = (!fault.path.is_empty()).then(|| written(&fault.path));
        let position = match key {
            Some(_) => format.locate(text, &fault.path),
            None => Some((1, 1)),
        };
        PolicyFileError::new(fault.reason).at(position).of_key(key)
    })
}

fn document(tree: &Value, base: Policies, limits: &Limits) -> Result<Policies, Fault> {
    let root = table(tree, &[])?;
    let known = ["default", "operations"];
    if let Some(name) = root.keys().find(|name| !known.contains(&name.as_str())) {
        return Err(fault(&[name], unknown("key", name, &known)));
    }
    let part = |name| {
        root.get(name)
            .map_or(Ok(&*EMPTY), |value| table(value, &[name]))
    };
    let (default, operations) = (part("default")?, part("operations")?);
    if default.is_empty() && operations.is_empty() {
        // Otherwise a file that is being written would count as one without policies.
        let reason = "it has no policies: there is nothing in `default` and `operations`";
        return Err(fault(&[], reason));
    }
    let reader = Reader::new(&["default"], limits);
    let default = reader.policy(default, (**base.default_policy()).clone())?;
    let mut policies = base.with_default(default.clone());
    for (name, value) in operations {
        let path = ["operations", name.as_str()];
        check_name(name).map_err(|reason| fault(&path, reason))?;
        let reader = Reader::new(&path, limits);
        let policy = reader.policy(table(value, &path)?, default.clone())?;
        policies = policies.with_operation(name, policy);
    }
    Ok(policies)
}

fn fault(path: &[&str], reason: impl Into<String>) -> Fault {
    Fault {
        path: path.iter().map(|&part| part.to_owned()).collect(),
        reason: reason.into(),
    }
}

fn table<'v>(value: &'v Value, path: &[&str]) -> Result<&'v Table, Fault> {
    match value {
        Value::Object(table) => Ok(table),
        // An empty document, or a key without a value.
        Value::Null => Ok(&EMPTY),
        _ => Err(fault(path, "this is a table")),
    }
}

/// Checks the name of an operation, or a prefix of names with a `*`.
fn check_name(name: &str) -> Result<(), String> {
    let start = name.strip_suffix('*').unwrap_or(name);
    if start.is_empty() && name == "*" {
        return Err("what holds for every operation goes to the table `default`".to_owned());
    }
    if start.contains('*') {
        return Err("a `*` stands at the end only".to_owned());
    }
    match Key::new("scope", start, "id") {
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// Reads the policy at a path.
struct Reader<'r> {
    path: &'r [&'r str],
    limits: &'r Limits,
}

impl<'r> Reader<'r> {
    fn new(path: &'r [&'r str], limits: &'r Limits) -> Self {
        Self { path, limits }
    }

    fn fault(&self, key: &str, reason: impl Into<String>) -> Fault {
        fault(&[self.path, &[key]].concat(), reason)
    }

    /// Returns the base, or the preset, with each key on top.
    fn policy(&self, table: &Table, base: Policy) -> Result<Policy, Fault> {
        let known = policy_keys();
        let beside = ["preset", "run", "window"];
        let mut policy = self.preset(table)?.unwrap_or(base);
        for (key, value) in table {
            let field = match key.as_str() {
                "preset" | "run" => continue,
                "window" if table.contains_key("retention") => {
                    let reason = "this is the retention by another name; give one of them";
                    return Err(self.fault(key, reason));
                }
                "window" => "retention",
                key if known.contains(&key) => key,
                _ => {
                    let all = [known.as_slice(), &beside].concat();
                    return Err(self.fault(key, unknown("key", key, &all)));
                }
            };
            policy = overlaid(&policy, field, value).map_err(|reason| self.fault(key, reason))?;
            let checked = policy.check(self.limits);
            checked.map_err(|error| self.fault(key, error.to_string()))?;
        }
        Ok(policy)
    }

    fn preset(&self, table: &Table) -> Result<Option<Policy>, Fault> {
        let batch = table.get("preset").is_some_and(|name| name == "batch");
        let run = match table.get("run") {
            Some(run) if batch => {
                let run = duration_text::deserialize(run);
                Some(run.map_err(|error| self.fault("run", error.to_string()))?)
            }
            Some(_) => return Err(self.fault("run", "this goes with the preset `batch` only")),
            None => None,
        };
        let Some(name) = table.get("preset") else {
            return Ok(None);
        };
        let Some(name) = name.as_str() else {
            return Err(self.fault("preset", "this is the name of a preset"));
        };
        match (named(name), run) {
            (Some(preset), _) => Ok(Some(preset)),
            (None, Some(run)) => self.batch(run).map(Some),
            (None, None) if batch => {
                let reason = "`batch` needs `run`, how long it is expected to run";
                Err(self.fault("preset", reason))
            }
            (None, None) => {
                let known = [PRESETS.as_slice(), &["batch"]].concat();
                Err(self.fault("preset", unknown("preset", name, &known)))
            }
        }
    }

    fn batch(&self, run: Duration) -> Result<Policy, Fault> {
        let policy = Policy::batch(run);
        match policy.check(self.limits) {
            Ok(()) => Ok(policy),
            Err(error) => Err(self.fault("run", error.to_string())),
        }
    }
}

/// Returns the policy with another value for one of its fields.
fn overlaid(policy: &Policy, field: &str, value: &Value) -> Result<Policy, String> {
    let mut fields = match serde_json::to_value(policy) {
        Ok(Value::Object(fields)) => fields,
        Ok(_) => Table::new(),
        Err(error) => return Err(error.to_string()),
    };
    fields.insert(field.to_owned(), in_full(field, value));
    Policy::deserialize(Value::Object(fields)).map_err(|error| error.to_string())
}

/// `on_busy = { wait = "5s" }` is short for a limit.
fn in_full(field: &str, value: &Value) -> Value {
    match value.get("wait") {
        Some(limit @ Value::String(_)) if field == "on_busy" => json!({"wait": {"limit": limit}}),
        _ => value.clone(),
    }
}
