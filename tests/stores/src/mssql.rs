//! SQL Server: only the transactions of callers. A namespace of the suite is a table, whose handles
//! share a pool; one of the storm is a schema.

crate::suite::caller_transaction!(
    idem_mssql::MssqlStore,
    idem_mssql::Transaction,
    commit,
    rollback
);
