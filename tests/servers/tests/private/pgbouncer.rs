use idem_servers::{Options, start_private};

use crate::postgres::psql;
use crate::{Outcome, Run, cases};

pub(crate) const TRIALS: &[(&str, Run)] = cases![pgbouncer_answers_for_the_server_behind_it];

fn pgbouncer_answers_for_the_server_behind_it() -> Outcome {
    let server = start_private("postgres", &Options::new())?;
    let options = Options::new().with_upstream(server.url());
    let pgbouncer = start_private("pgbouncer", &options)?;
    let product = pgbouncer.product();
    assert_eq!(product.name, "PgBouncer");
    assert!(product.version.is_some(), "{product}");
    let behind = psql(pgbouncer.url(), "SHOW data_directory")?;
    assert_eq!(behind, psql(server.url(), "SHOW data_directory")?);
    Ok(())
}
