//! Privileges and triggers: which ones the statements need, and which ones `verify()` names.

use std::time::{Duration, Instant};

use idem_conformance::{Case, CaseResult, Context, migration};
use idem_core::{BoxError, ErrorKind, Result};
use idem_mssql::MssqlStore;

use super::case;
use crate::support::{self, MssqlHarness};

pub(super) const A_MISSING_PRIVILEGE_IS_NAMED: Case =
    case(11, "a_missing_privilege_is_named", |cx| {
        Box::pin(a_missing_privilege_is_named(cx))
    });
pub(super) const THE_GRANTED_PRIVILEGES_ARE_ENOUGH: Case =
    case(11, "the_granted_privileges_are_enough", |cx| {
        Box::pin(the_granted_privileges_are_enough(cx))
    });
pub(super) const A_TRIGGER_IS_NAMED: Case = case(11, "a_trigger_is_named", |cx| {
    Box::pin(a_trigger_is_named(cx))
});

const PRIVILEGES: [&str; 4] = ["SELECT", "INSERT", "UPDATE", "DELETE"];

/// The server's policy for passwords takes it.
const PASSWORD: &str = "Limited-4-this-case";

/// A login with a user of the same name, and the privileges that the README grants.
struct Limited<'a> {
    cx: &'a Context,
    harness: MssqlHarness,
    name: String,
    /// Each privilege, with its table.
    granted: Vec<(&'static str, String)>,
}

impl<'a> Limited<'a> {
    async fn create(cx: &'a Context) -> CaseResult<Self> {
        let table = cx.namespace();
        let mut granted = Vec::new();
        for table in [format!("[{table}]"), format!("[{table}_watermarks]")] {
            granted.extend(PRIVILEGES.map(|privilege| (privilege, table.clone())));
        }
        granted.push(("SELECT", format!("[{table}_version]")));
        let limited = Self {
            cx,
            harness: support::harness(cx)?,
            name: format!("{table}_user"),
            granted,
        };
        let name = &limited.name;
        limited
            .run(&format!(
                "CREATE LOGIN [{name}] WITH PASSWORD = N'{PASSWORD}';"
            ))
            .await?;
        limited
            .run(&format!("CREATE USER [{name}] FOR LOGIN [{name}];"))
            .await?;
        for (privilege, table) in &limited.granted {
            limited.grant(privilege, table).await?;
        }
        Ok(limited)
    }

    async fn run(&self, sql: &str) -> Result<(), BoxError> {
        self.harness.run(self.cx.namespace(), sql).await.map(drop)
    }

    async fn grant(&self, privilege: &str, table: &str) -> Result<(), BoxError> {
        self.run(&format!("GRANT {privilege} ON {table} TO [{}];", self.name))
            .await
    }

    async fn revoke(&self, privilege: &str, table: &str) -> Result<(), BoxError> {
        self.run(&format!(
            "REVOKE {privilege} ON {table} FROM [{}];",
            self.name
        ))
        .await
    }

    fn store(&self) -> Result<MssqlStore, BoxError> {
        self.harness
            .store_as(&self.name, PASSWORD, self.cx.namespace())
    }

    /// Drops user and login. Babelfish drops no user that has privileges, and a server may not have
    /// seen yet that the login's connections are closed.
    async fn remove(&self) -> Result<(), BoxError> {
        for (privilege, table) in &self.granted {
            self.revoke(privilege, table).await?;
        }
        self.run(&format!("DROP USER [{}];", self.name)).await?;
        let begun = Instant::now();
        loop {
            match self.run(&format!("DROP LOGIN [{}];", self.name)).await {
                Err(_) if begun.elapsed() < self.cx.profile().max_wait() => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                dropped => return dropped,
            }
        }
    }
}

/// A user that lacks one of the privileges, or all of them.
async fn a_missing_privilege_is_named(cx: &Context) -> CaseResult {
    let limited = Limited::create(cx).await?;
    let returned = without_privileges(&limited).await;
    limited.remove().await?;
    for (privilege, table, returned) in returned? {
        let error = returned.expect_err(privilege);
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        let text = error.to_string();
        for named in ["GRANT", privilege, &table] {
            assert!(text.contains(named), "{privilege} on {table}: {error}");
        }
    }
    Ok(())
}

/// Returns each privilege with its table, and what `verify()` returns to a user without it. The last
/// entry is for a user without any privilege.
async fn without_privileges(
    limited: &Limited<'_>,
) -> CaseResult<Vec<(&'static str, String, Result<()>)>> {
    let store = limited.store()?;
    store.verify().await?;
    let mut returned = Vec::new();
    for (privilege, table) in &limited.granted {
        limited.revoke(privilege, table).await?;
        returned.push((*privilege, table.clone(), store.verify().await));
        limited.grant(privilege, table).await?;
    }
    store.verify().await?;
    for (privilege, table) in &limited.granted {
        limited.revoke(privilege, table).await?;
    }
    let (privilege, table) = &limited.granted[0];
    returned.push((*privilege, table.clone(), store.verify().await));
    store.pool().close();
    Ok(returned)
}

/// With what the README grants, a user can do everything except migrate.
async fn the_granted_privileges_are_enough(cx: &Context) -> CaseResult {
    let limited = Limited::create(cx).await?;
    let worked = with_all_privileges(cx, &limited).await;
    limited.remove().await?;
    worked
}

async fn with_all_privileges(cx: &Context, limited: &Limited<'_>) -> CaseResult {
    let store = limited.store()?;
    store.verify().await?;
    store.migrate().await?;
    migration::every_operation(cx, &store).await?;
    store.pool().close();
    Ok(())
}

/// Beside a trigger, SQL Server refuses a statement with OUTPUT (334). Where a server does not, a
/// trigger may still change what the statement wrote, or write nothing (INSTEAD OF).
async fn a_trigger_is_named(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let (store, namespace) = (harness.store(cx.namespace())?, cx.namespace());
    store.verify().await?;
    let (trigger, marks) = (format!("{namespace}_t"), format!("{namespace}_watermarks"));
    for (table, event) in [
        (namespace, "AFTER INSERT"),
        (namespace, "AFTER UPDATE, DELETE"),
        (namespace, "INSTEAD OF INSERT"),
        (&marks, "AFTER UPDATE"),
    ] {
        let body = "AS BEGIN SET NOCOUNT ON; END;";
        let create = format!("CREATE TRIGGER [{trigger}] ON [{table}] {event} {body}");
        harness.run(namespace, &create).await?;
        let error = store.verify().await.expect_err(&create);
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{create}: {error}");
        let text = error.to_string();
        assert!(text.contains("has a trigger"), "{create}: {error}");
        assert!(text.contains("drop or disable"), "{create}: {error}");
        let disable = format!("DISABLE TRIGGER [{trigger}] ON [{table}];");
        harness.run(namespace, &disable).await?;
        store.verify().await?;
        let drop = format!("DROP TRIGGER [{trigger}];");
        harness.run(namespace, &drop).await?;
    }
    Ok(())
}
