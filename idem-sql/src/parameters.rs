//! Named parameters of statements.
//!
//! A template names its parameters in braces, as `{scope}`. [`compile`] puts the driver's
//! placeholders there, once for each store; [`Values`] holds what an operation sends. So no
//! statement depends on the order in which an operation binds its values.

use std::borrow::Cow;

use idem_core::backend::FinalResult;
use idem_core::backend::check::CheckedClaim;
use idem_core::{
    Claim, ClaimRequest, Effect, Error, ErrorKind, FailedPolicy, Key, Result, StalePolicy,
};

macro_rules! parameters {
    ($($(#[$about:meta])* $name:ident = $text:literal,)*) => {
        /// A parameter of a statement.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Parameter {
            $($(#[$about])* $name,)*
        }

        impl Parameter {
            const ALL: &[Self] = &[$(Self::$name,)*];

            /// Returns its name in templates.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

parameters! {
    /// The key's scope.
    Scope = "scope",
    /// The key's operation.
    Operation = "operation",
    /// The key's id.
    Id = "id",
    /// The fencing token.
    Token = "token",
    /// The attempt's id, 16 bytes.
    AttemptId = "attempt_id",
    /// The request's fingerprint.
    Fingerprint = "fingerprint",
    /// The length of the lease, in microseconds.
    Lease = "lease",
    /// How long the record is kept, in microseconds.
    Retention = "retention",
    /// Whether the claim fails when it is stale.
    FailsWhenStale = "fails_when_stale",
    /// Whether the claim takes a failed key.
    RetriesFailed = "retries_failed",
    /// The claim's metadata, as JSON; NULL without any.
    Metadata = "metadata",
    /// The new state.
    State = "state",
    /// The state that the record must have.
    Seen = "seen",
    /// The stored form of a result or a checkpoint.
    Result = "result",
    /// The version of a mark.
    Version = "version",
    /// The most rows that the statement changes.
    Limit = "limit",
    /// The length of the lease and of the retention together, in microseconds.
    Kept = "kept",
    /// The length of the lease where a stale claim fails, and NULL elsewhere.
    SweepAfter = "sweep_after",
    /// The item's index in a batch.
    Index = "index",
    /// The topic of a notification about the key.
    Topic = "topic",
}

/// A parameter's value.
#[derive(Debug, Clone)]
pub enum Value<'v> {
    /// A text.
    Text(&'v str),
    /// A text, or NULL.
    OptionalText(Option<&'v str>),
    /// Bytes.
    Bytes(Cow<'v, [u8]>),
    /// A number.
    Number(i64),
    /// A number, or NULL.
    OptionalNumber(Option<i64>),
    /// A condition.
    Flag(bool),
    /// How many items a batch has.
    Count(i32),
    /// The values of a batch's items, on servers that have arrays.
    Array(Array<'v>),
}

/// The values of one parameter in a batch, each of which may be NULL.
#[derive(Debug, Clone)]
pub enum Array<'v> {
    /// Texts.
    Texts(Vec<Option<&'v str>>),
    /// Bytes.
    Bytes(Vec<Option<&'v [u8]>>),
    /// Numbers.
    Numbers(Vec<Option<i64>>),
    /// Conditions.
    Flags(Vec<Option<bool>>),
}

impl Value<'_> {
    /// Returns the same value, without a copy of text or bytes.
    #[must_use]
    pub fn borrowed(&self) -> Value<'_> {
        match self {
            Self::Bytes(bytes) => Value::Bytes(Cow::Borrowed(bytes)),
            other => other.clone(),
        }
    }

    fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::OptionalText(text) => *text,
            _ => None,
        }
    }

    fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    fn number(&self) -> Option<i64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::OptionalNumber(number) => *number,
            _ => None,
        }
    }

    fn flag(&self) -> Option<bool> {
        match self {
            Self::Flag(flag) => Some(*flag),
            _ => None,
        }
    }
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl<'v> From<&'v [u8]> for Value<'v> {
    fn from(bytes: &'v [u8]) -> Self {
        Self::Bytes(bytes.into())
    }
}

/// The values of an operation's parameters.
#[derive(Debug, Clone, Default)]
pub struct Values<'v>([Option<Value<'v>>; Parameter::ALL.len()]);

impl<'v> Values<'v> {
    /// Creates the values of a key's scope, operation and id.
    #[must_use]
    pub fn of_key(key: &'v Key) -> Self {
        Self::default()
            .with(Parameter::Scope, Value::Text(key.scope()))
            .with(Parameter::Operation, Value::Text(key.operation()))
            .with(Parameter::Id, Value::Text(key.id()))
    }

    /// Creates the values of a holder: key, token and attempt id.
    #[must_use]
    pub fn of_claim(claim: &'v Claim) -> Self {
        let attempt = claim.attempt().as_bytes().to_vec();
        Self::of_key(claim.key())
            .with(Parameter::Token, claim.token().as_i64())
            .with(Parameter::AttemptId, Value::Bytes(attempt.into()))
    }

    /// Creates the values of a claim.
    #[must_use]
    pub fn of_request(request: &'v ClaimRequest, checked: &'v CheckedClaim) -> Self {
        let fingerprint = request.fingerprint().to_bytes().to_vec();
        let attempt = request.attempt().as_bytes().to_vec();
        let fails_when_stale = request.on_stale() == StalePolicy::Fail;
        let retries_failed = request.on_failed() == FailedPolicy::Retry;
        let sweep_after = fails_when_stale.then_some(checked.lease);
        let metadata = Value::OptionalText(checked.metadata.as_deref());
        Self::of_key(request.key())
            .with(Parameter::Fingerprint, Value::Bytes(fingerprint.into()))
            .with(Parameter::AttemptId, Value::Bytes(attempt.into()))
            .with(Parameter::Lease, checked.lease)
            .with(Parameter::Retention, checked.retention)
            .with(Parameter::FailsWhenStale, Value::Flag(fails_when_stale))
            .with(Parameter::RetriesFailed, Value::Flag(retries_failed))
            .with(Parameter::Kept, checked.lease + checked.retention)
            .with(Parameter::SweepAfter, Value::OptionalNumber(sweep_after))
            .with(Parameter::Metadata, metadata)
    }

    /// Adds the state, the stored form and the retention of a result.
    #[must_use]
    pub fn with_result(self, result: &'v FinalResult) -> Self {
        self.with(Parameter::State, result.state())
            .with(Parameter::Result, result.bytes())
            .with(Parameter::Retention, result.retention())
    }

    /// Sets a value.
    #[must_use]
    pub fn with(mut self, parameter: Parameter, value: impl Into<Value<'v>>) -> Self {
        self.0[parameter as usize] = Some(value.into());
        self
    }

    /// Returns the values of these parameters, in this order.
    ///
    /// # Errors
    ///
    /// `Other` where the operation has set no value, which is a mistake of the backend's.
    pub fn of(&self, parameters: &[Parameter]) -> Result<Vec<Value<'_>>> {
        let value = |&parameter: &Parameter| match &self.0[parameter as usize] {
            Some(value) => Ok(value.borrowed()),
            None => Err(forgotten(parameter)),
        };
        parameters.iter().map(value).collect()
    }

    /// Returns an array for each of these parameters, with the values of all items.
    ///
    /// # Errors
    ///
    /// As for [`of`](Self::of).
    pub fn arrays(items: &'v [Self], parameters: &[Parameter]) -> Result<Vec<Value<'v>>> {
        let array = |&parameter: &Parameter| {
            let value = |item: &'v Self| item.0[parameter as usize].as_ref();
            let values = items.iter().map(value);
            let values: Vec<_> = values
                .collect::<Option<_>>()
                .ok_or_else(|| forgotten(parameter))?;
            let values = || values.iter().copied();
            Ok(Value::Array(match values().next() {
                Some(Value::Bytes(_)) => Array::Bytes(values().map(Value::bytes).collect()),
                Some(Value::Flag(_)) => Array::Flags(values().map(Value::flag).collect()),
                Some(Value::Number(_) | Value::OptionalNumber(_)) => {
                    Array::Numbers(values().map(Value::number).collect())
                }
                _ => Array::Texts(values().map(Value::text).collect()),
            }))
        };
        parameters.iter().map(array).collect()
    }
}

fn forgotten(parameter: Parameter) -> Error {
    let name = parameter.name();
    let message = format!("the statement's parameter {name} has no value");
    Error::new(ErrorKind::Other, Effect::None, message)
}

/// How a driver writes the places of parameters.
#[derive(Debug, Clone, Copy)]
pub enum Placeholder {
    /// This text and the parameter's number, which counts from one: a parameter is sent once.
    Numbered(&'static str),
    /// This text: a parameter is sent as often as the template names it.
    Repeated(&'static str),
}

/// Puts the placeholders where the template names parameters. Returns the text, and the parameters
/// in the order in which the driver takes their values. Other braces stay.
#[must_use]
pub fn compile(template: &str, placeholder: Placeholder) -> (String, Vec<Parameter>) {
    let (mut text, mut parameters) = (String::with_capacity(template.len()), Vec::new());
    let mut rest = template;
    while let Some(start) = rest.find('{') {
        let (before, opened) = rest.split_at(start);
        text.push_str(before);
        let named = |parameter: &&Parameter| {
            let name = opened[1..].strip_prefix(parameter.name());
            name.is_some_and(|after| after.starts_with('}'))
        };
        let Some(&parameter) = Parameter::ALL.iter().find(named) else {
            text.push('{');
            rest = &opened[1..];
            continue;
        };
        rest = &opened[parameter.name().len() + 2..];
        match placeholder {
            Placeholder::Repeated(sign) => {
                parameters.push(parameter);
                text.push_str(sign);
            }
            Placeholder::Numbered(sign) => {
                let known = parameters.iter().position(|known| *known == parameter);
                let index = known.unwrap_or_else(|| {
                    parameters.push(parameter);
                    parameters.len() - 1
                });
                text.push_str(sign);
                text.push_str(&(index + 1).to_string());
            }
        }
    }
    text.push_str(rest);
    (text, parameters)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEMPLATE: &str = "UPDATE {table} SET a = {lease}, b = now() + {lease} WHERE {id} = id";

    #[test]
    fn a_value_that_an_operation_forgets_is_named() {
        let parameters = [Parameter::Scope, Parameter::Lease];
        let values = Values::default().with(Parameter::Scope, Value::Text("tenant"));
        let error = values.of(&parameters).unwrap_err().to_string();
        assert!(error.contains("parameter lease has no value"), "{error}");
        assert!(Values::arrays(std::slice::from_ref(&values), &parameters).is_err());
        let values = values.with(Parameter::Lease, 7);
        assert_eq!(values.of(&parameters).unwrap().len(), 2);
        let both = [values.clone(), values.with(Parameter::Lease, 8)];
        let arrays = Values::arrays(&both, &parameters).unwrap();
        assert!(
            matches!(&arrays[0], Value::Array(Array::Texts(texts)) if *texts == [Some("tenant"); 2])
        );
        assert!(
            matches!(&arrays[1], Value::Array(Array::Numbers(leases)) if *leases == [Some(7), Some(8)])
        );
    }

    #[test]
    fn a_template_becomes_the_drivers_text() {
        let (text, parameters) = compile(TEMPLATE, Placeholder::Numbered("$"));
        assert_eq!(
            text,
            "UPDATE {table} SET a = $1, b = now() + $1 WHERE $2 = id"
        );
        assert_eq!(parameters, [Parameter::Lease, Parameter::Id]);
        let (text, parameters) = compile(TEMPLATE, Placeholder::Repeated("?"));
        assert_eq!(text, "UPDATE {table} SET a = ?, b = now() + ? WHERE ? = id");
        let expected = [Parameter::Lease, Parameter::Lease, Parameter::Id];
        assert_eq!(parameters, expected);
    }
}
