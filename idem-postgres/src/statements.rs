//! The statements of one store.

use std::sync::Arc;

use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

use crate::config::Config;
use crate::listen::channel;
use crate::sql;

/// The statements with the tables' names put in, shared by all clones of a store.
#[derive(Debug)]
pub(crate) struct Statements {
    pub(crate) insert: Statement,
    pub(crate) look: Statement,
    pub(crate) look_many: Statement,
    pub(crate) claim: Statement,
    pub(crate) insert_many: Statement,
    pub(crate) claim_many: Statement,
    pub(crate) abandon: Statement,
    pub(crate) seal: Statement,
    pub(crate) complete_many: Statement,
    pub(crate) owned: Statement,
    pub(crate) release: Statement,
    pub(crate) renew: Statement,
    pub(crate) get: Statement,
    pub(crate) purge: Statement,
    pub(crate) sweep: Statement,
    pub(crate) checkpoint: Statement,
    pub(crate) last_checkpoint: Statement,
    pub(crate) advance: Statement,
    pub(crate) watermark: Statement,
    pub(crate) purge_watermarks: Statement,
}

impl Statements {
    pub(crate) fn new(config: &Config) -> Self {
        let [table, marks] = [config.qualified_table(), config.qualified_marks()];
        // Nothing but letters, digits and an underscore.
        let channel = channel(config);
        let named = |template: &str| {
            let named = template.replace("{table}", &table);
            let named = named.replace("{marks}", &marks);
            announced(&named.replace("{channel}", &channel), config.announces())
        };
        let statement = |template: &str| Statement(named(template).into());
        Self {
            insert: statement(sql::INSERT),
            look: statement(sql::LOOK),
            look_many: statement(sql::LOOK_MANY),
            claim: statement(sql::CLAIM),
            insert_many: statement(sql::INSERT_MANY),
            claim_many: statement(sql::CLAIM_MANY),
            abandon: statement(sql::ABANDON),
            seal: statement(sql::SEAL),
            complete_many: statement(sql::COMPLETE_MANY),
            owned: statement(sql::OWNED),
            release: statement(sql::RELEASE),
            renew: statement(sql::RENEW),
            get: statement(sql::GET),
            purge: statement(sql::PURGE),
            sweep: statement(sql::SWEEP),
            checkpoint: statement(sql::CHECKPOINT),
            last_checkpoint: statement(sql::LAST_CHECKPOINT),
            advance: statement(sql::ADVANCE),
            watermark: statement(sql::WATERMARK),
            purge_watermarks: statement(sql::PURGE_WATERMARKS),
        }
    }
}

/// With what stands in `{announced:…}` where changes are told, and without it where they are not.
fn announced(template: &str, announces: bool) -> String {
    let mut parts = template.split("{announced:");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (told, rest) = part.split_once('}').unwrap_or((part, ""));
        if announces {
            text.push_str(told);
        }
        text.push_str(rest);
    }
    text
}

/// One statement's text. Nothing but the validated names of the tables was put into it.
#[derive(Debug)]
pub(crate) struct Statement(Arc<str>);

impl Statement {
    pub(crate) fn text(&self) -> SqlStr {
        AssertSqlSafe(Arc::clone(&self.0)).into_sql_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Announce;

    #[test]
    fn changes_are_told_where_that_was_chosen() {
        let plain = Config::new();
        let telling = plain.clone().with_announce(Announce::Changes);
        for (config, told) in [(plain, false), (telling, true)] {
            let sql = Statements::new(&config);
            for statement in [&sql.seal, &sql.complete_many, &sql.release] {
                let text = statement.text();
                assert_eq!(text.as_str().contains("pg_notify('idem_"), told);
                assert!(!text.as_str().contains(['{', '}']), "{}", text.as_str());
            }
            assert!(!sql.claim.text().as_str().contains("pg_notify"));
        }
    }
}
