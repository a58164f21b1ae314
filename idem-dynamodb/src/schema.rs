//! The table: how it is created, and what the store checks of it.

use std::time::Duration;

use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::operation::create_table::CreateTableError;
use aws_sdk_dynamodb::operation::describe_table::DescribeTableError;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, MultiRegionConsistency,
    ScalarAttributeType, TableDescription, TableStatus, TimeToLiveSpecification, TimeToLiveStatus,
};
use idem_core::backend::RetryPauses;
use idem_core::{Effect, Error, ErrorKind, Result};

use crate::config::Config;
use crate::error::Access;
use crate::operations::{NO_ITEM, Operations};
use crate::session::Session;
use crate::statements::attribute;
use crate::store::{DynamoStore, at};

/// How long `migrate` waits for a new table. It takes some ten seconds.
const CREATION: Duration = Duration::from_secs(300);

/// Returns the commands of the AWS CLI that create the table, for those who keep their
/// infrastructure elsewhere.
///
/// ```
/// let commands = idem_dynamodb::schema_commands(&idem_dynamodb::Config::new());
/// assert!(commands[0].starts_with("aws dynamodb create-table"));
/// ```
#[must_use]
pub fn schema_commands(config: &Config) -> Vec<String> {
    let (table, key, ttl) = (config.table(), attribute::KEY, attribute::TTL);
    vec![
        format!(
            "aws dynamodb create-table --table-name {table} --billing-mode PAY_PER_REQUEST \
             --attribute-definitions AttributeName={key},AttributeType=S \
             --key-schema AttributeName={key},KeyType=HASH"
        ),
        format!("aws dynamodb wait table-exists --table-name {table}"),
        format!(
            "aws dynamodb update-time-to-live --table-name {table} \
             --time-to-live-specification Enabled=true,AttributeName={ttl}"
        ),
    ]
}

impl DynamoStore {
    /// Creates the table, paid per request, if it does not exist, and lets the service delete
    /// expired items. Any number of processes may run it at once. It changes no existing table,
    /// except that it turns TTL on.
    ///
    /// # Errors
    ///
    /// `Misconfigured` when the table exists and is unsuitable, or the credentials do not permit it
    /// (`dynamodb:CreateTable`, `DescribeTable`, `UpdateTimeToLive`, `DescribeTimeToLive`);
    /// `Unavailable`.
    ///
    /// # Cancellation
    ///
    /// The table may exist or not, with TTL or without; run it again.
    pub async fn migrate(&self) -> Result<()> {
        self.operations.migrate().await.map_err(at("migrate"))
    }

    /// Checks the table: its key, its regions, the attribute of its TTL, and that this client may
    /// read an item and knows the service's clock. It changes nothing.
    ///
    /// # Errors
    ///
    /// `Misconfigured`, with instructions; `Unavailable`.
    ///
    /// # Cancellation
    ///
    /// Without effect.
    pub async fn verify(&self) -> Result<()> {
        let operations = &self.operations;
        let session = operations.session();
        operations.verify(&session).await.map_err(at("verify"))
    }
}

impl Operations {
    async fn migrate(&self) -> Result<()> {
        let mut pauses = RetryPauses::new(CREATION);
        loop {
            let session = self.session();
            match self.describe(&session).await? {
                None => self.create(&session).await?,
                Some(table) if is_active(&table) => {
                    check_table(&table)?;
                    return self.turn_ttl_on(&session).await;
                }
                Some(_) => {}
            }
            if !pauses.wait().await {
                return Err(misconfigured(
                    "the table is not active after five minutes; look at its state in the console",
                ));
            }
        }
    }

    async fn verify(&self, session: &Session) -> Result<()> {
        let table = self.describe(session).await?;
        let missing = || {
            misconfigured(
                "the table does not exist: run `migrate()`, or create it as `schema_commands` \
                 prints, and check region and account",
            )
        };
        check_table(&table.ok_or_else(missing)?)?;
        if let (_, Some(name)) = self.ttl(session).await? {
            check_ttl(&name)?;
        }
        self.now(session).await?;
        self.read_item(session, NO_ITEM.to_owned(), Access::Read)
            .await
            .map(drop)
    }

    /// Returns the table, if it exists.
    async fn describe(&self, session: &Session) -> Result<Option<TableDescription>> {
        let request = self.client.describe_table().table_name(self.config.table());
        let described = session
            .send(&self.clock, Access::Read, |watch| {
                request.customize().interceptor(watch).send()
            })
            .await?;
        match described {
            Ok(described) => Ok(described.table),
            Err(failed) => match failed.service_error() {
                Some(DescribeTableError::ResourceNotFoundException(_)) => Ok(None),
                _ => Err(failed.classify(Access::Read)),
            },
        }
    }

    async fn create(&self, session: &Session) -> Result<()> {
        let refused = |source: BuildError| {
            let message = "the SDK refuses the table's definition; see the source";
            Error::new(ErrorKind::Other, Effect::None, message).with_source(source)
        };
        let key = AttributeDefinition::builder()
            .attribute_name(attribute::KEY)
            .attribute_type(ScalarAttributeType::S)
            .build()
            .map_err(refused)?;
        let hash = KeySchemaElement::builder()
            .attribute_name(attribute::KEY)
            .key_type(KeyType::Hash)
            .build()
            .map_err(refused)?;
        let request = self
            .client
            .create_table()
            .table_name(self.config.table())
            .billing_mode(BillingMode::PayPerRequest)
            .attribute_definitions(key)
            .key_schema(hash);
        let created = session
            .send(&self.clock, Access::Write, |watch| {
                request.customize().interceptor(watch).send()
            })
            .await?;
        match created {
            Ok(_) => Ok(()),
            Err(failed) => match failed.service_error() {
                // Another process has created it, or a try whose answer was lost.
                Some(CreateTableError::ResourceInUseException(_)) => Ok(()),
                _ => Err(failed.classify(Access::Write)),
            },
        }
    }

    /// Returns the state of the TTL and its attribute.
    async fn ttl(&self, session: &Session) -> Result<(Option<TimeToLiveStatus>, Option<String>)> {
        let request = self
            .client
            .describe_time_to_live()
            .table_name(self.config.table());
        let described = session
            .send(&self.clock, Access::Read, |watch| {
                request.customize().interceptor(watch).send()
            })
            .await?;
        let described = described.map_err(|failed| failed.classify(Access::Read))?;
        let ttl = described.time_to_live_description;
        Ok(ttl.map_or((None, None), |ttl| {
            (ttl.time_to_live_status, ttl.attribute_name)
        }))
    }

    async fn turn_ttl_on(&self, session: &Session) -> Result<()> {
        let is_on = |status: &Option<TimeToLiveStatus>| {
            matches!(
                status,
                Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling)
            )
        };
        let (status, name) = self.ttl(session).await?;
        if is_on(&status) {
            return name.map_or(Ok(()), |name| check_ttl(&name));
        }
        let on = TimeToLiveSpecification::builder()
            .enabled(true)
            .attribute_name(attribute::TTL)
            .build();
        let on = on.map_err(|source| {
            let message = "the SDK refuses the TTL's definition; see the source";
            Error::new(ErrorKind::Other, Effect::None, message).with_source(source)
        })?;
        let request = self
            .client
            .update_time_to_live()
            .table_name(self.config.table())
            .time_to_live_specification(on);
        let updated = session
            .send(&self.clock, Access::Write, |watch| {
                request.customize().interceptor(watch).send()
            })
            .await?;
        let Err(failed) = updated else {
            return Ok(());
        };
        // The service refuses a TTL that is on already: another process was faster.
        match self.ttl(session).await? {
            (status, _) if is_on(&status) => Ok(()),
            _ => Err(failed.classify(Access::Write)),
        }
    }
}

fn is_active(table: &TableDescription) -> bool {
    matches!(
        table.table_status,
        Some(TableStatus::Active | TableStatus::Updating)
    )
}

/// Refuses a table whose items are not the records of one key each, or whose regions disagree.
fn check_table(table: &TableDescription) -> Result<()> {
    let keys = table.key_schema();
    let is_key = |key: &KeySchemaElement| {
        key.attribute_name() == attribute::KEY && *key.key_type() == KeyType::Hash
    };
    let is_text = |definition: &AttributeDefinition| {
        definition.attribute_name() == attribute::KEY
            && *definition.attribute_type() == ScalarAttributeType::S
    };
    let has_text = table.attribute_definitions().iter().any(is_text);
    if !matches!(keys, [key] if is_key(key)) || !has_text {
        return Err(misconfigured(
            "the table's key has to be the partition key `pk` of type S, without a sort key; give \
             the store a table of its own",
        ));
    }
    let is_strong = table.multi_region_consistency == Some(MultiRegionConsistency::Strong);
    if !table.replicas().is_empty() && !is_strong {
        return Err(misconfigured(
            "the table is a global table with eventual consistency: two regions may let two callers \
             win one key. Use a table of one region, or multi-region strong consistency",
        ));
    }
    Ok(())
}

/// Refuses a TTL that would delete live records.
fn check_ttl(name: &str) -> Result<()> {
    let is_instant = |name: &str| {
        [
            attribute::TOKEN,
            attribute::ATTEMPTS,
            attribute::STATE,
            attribute::VERSION,
            attribute::CREATED_AT,
            attribute::SEALED_AT,
            attribute::LEASE_ENDS_AT,
            attribute::EXPIRES_AT,
            attribute::FAILS_WHEN_STALE,
        ]
        .contains(&name)
    };
    if is_instant(name) {
        return Err(misconfigured(
            "the table's TTL is on another attribute of the records than `ttl`, and may delete live \
             records; turn it off, and run `migrate()`",
        ));
    }
    Ok(())
}

fn misconfigured(message: &'static str) -> Error {
    Error::new(ErrorKind::Misconfigured, Effect::None, message)
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::ReplicaDescription;

    use super::*;

    fn table(name: &str, kind: ScalarAttributeType) -> TableDescription {
        let key = AttributeDefinition::builder()
            .attribute_name(name)
            .attribute_type(kind);
        let hash = KeySchemaElement::builder()
            .attribute_name(name)
            .key_type(KeyType::Hash);
        TableDescription::builder()
            .attribute_definitions(key.build().unwrap())
            .key_schema(hash.build().unwrap())
            .build()
    }

    #[test]
    fn a_table_with_another_key_is_refused() {
        assert!(check_table(&table("pk", ScalarAttributeType::S)).is_ok());
        assert!(check_table(&table("pk", ScalarAttributeType::B)).is_err());
        assert!(check_table(&table("id", ScalarAttributeType::S)).is_err());
        let mut sorted = table("pk", ScalarAttributeType::S);
        let sort = KeySchemaElement::builder()
            .attribute_name("sk")
            .key_type(KeyType::Range);
        let sort = sort.build().unwrap();
        sorted.key_schema.get_or_insert_default().push(sort);
        assert!(check_table(&sorted).is_err());
    }

    #[test]
    fn a_global_table_has_to_be_strongly_consistent() {
        let mut global = table("pk", ScalarAttributeType::S);
        global.replicas = Some(vec![ReplicaDescription::builder().build()]);
        assert!(check_table(&global).is_err());
        global.multi_region_consistency = Some(MultiRegionConsistency::Strong);
        assert!(check_table(&global).is_ok());
    }

    #[test]
    fn a_ttl_on_an_instant_in_microseconds_is_refused() {
        assert!(check_ttl("ttl").is_ok());
        assert!(check_ttl("of somebody else").is_ok());
        assert!(check_ttl("token").is_err());
    }
}
