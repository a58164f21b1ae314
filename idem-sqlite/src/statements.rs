//! The statements of one store.

use idem_sql::executor::Statement;
use idem_sql::parameters::Placeholder;

use crate::config::Config;
use crate::sql;

/// How many claims one statement inserts at most.
pub(crate) const INSERTED_AT_MOST: usize = 256;

idem_sql::statements! {
    single: Statement, of &str {
        held: sql::HELD,
        acquire: sql::ACQUIRE,
        exhausted: sql::EXHAUSTED,
        abandon: sql::ABANDON,
        seal: sql::SEAL,
        owned: sql::OWNED,
        release: sql::RELEASE,
        renew: sql::RENEW,
        get: sql::GET,
        delete_expired: sql::DELETE_EXPIRED,
        fail_abandoned: sql::FAIL_ABANDONED,
        summary: sql::SUMMARY,
        list: sql::LIST,
        force: sql::FORCE,
        rewrite: sql::REWRITE,
        checkpoint: sql::CHECKPOINT,
        last_checkpoint: sql::LAST_CHECKPOINT,
        raised: sql::RAISED,
        raise: sql::RAISE,
        watermark: sql::WATERMARK,
        delete_expired_watermarks: sql::DELETE_EXPIRED_WATERMARKS,
    }
    + {
        /// For 1 claim, 2, 4 and so on, up to [`INSERTED_AT_MOST`], so that few texts stay
        /// prepared.
        insert_many: Vec<Statement>,
    }
}

idem_sql::statements_by_kind!(Statement);

impl Statements {
    pub(crate) fn new(config: &Config) -> Self {
        let [table, marks] = [config.quoted_table(), config.quoted_marks()];
        let named = |template: &str| {
            let named = template.replace("{table}", &table);
            named.replace("{marks}", &marks)
        };
        let placeholder = Placeholder::Numbered("?");
        let statement = |template: &str| Statement::new(&named(template), placeholder);
        let sizes = 0..=INSERTED_AT_MOST.ilog2();
        let insert_many = sizes.map(|power| statement(&sql::insert_many(1 << power)));
        Self::of(statement, insert_many.collect())
    }

    /// Returns the statement that inserts this many claims, at most [`INSERTED_AT_MOST`], and how
    /// many it has room for.
    pub(crate) fn insert_many(&self, claims: usize) -> (&Statement, usize) {
        let room = claims.next_power_of_two().min(INSERTED_AT_MOST);
        (&self.insert_many[room.ilog2() as usize], room)
    }
}
