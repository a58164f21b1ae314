use crate::{
    Error, Result, Server, dynamodb, etcd, galera, mariadb, mongo, mssql, mysql, nats, patroni,
    pgbouncer, postgres, redis, redis_cluster, sentinel, valkey,
};

/// The databases: one file and one line each. A server in front of another comes after it.
static SERVERS: &[&Server] = &[
    &postgres::SERVER,
    &pgbouncer::SERVER,
    &mariadb::SERVER,
    &mysql::SERVER,
    &galera::SERVER,
    &mssql::SERVER,
    &redis::SERVER,
    &valkey::SERVER,
    &redis_cluster::SERVER,
    &mongo::SERVER,
    &dynamodb::SERVER,
    &nats::SERVER,
];

/// Returns every known database.
pub fn servers() -> &'static [&'static Server] {
    SERVERS
}

/// Returns the database of that name, or another server that tests start with
/// [`start_private`](crate::start_private).
///
/// # Errors
///
/// An error when there is none.
pub fn server(name: &str) -> Result<&'static Server> {
    let private = [
        &sentinel::SERVER,
        &postgres::STANDBY,
        &etcd::SERVER,
        &patroni::SERVER,
    ];
    let mut known = SERVERS.iter().copied().chain(private);
    known.find(|server| server.name == name).ok_or_else(|| {
        let known: Vec<_> = SERVERS.iter().map(|server| server.name).collect();
        Error::failed(format!(
            "no server is called `{name}`; there are: {}",
            known.join(", ")
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::{server, servers};

    #[test]
    fn variables_are_made_of_the_name() {
        let cluster = server("redis-cluster").unwrap();
        assert_eq!(cluster.url_variable(), "IDEM_REDIS_CLUSTER_URL");
        assert_eq!(cluster.programs_variable(), "IDEM_REDIS_CLUSTER_BIN_DIR");
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let error = server("oracle").unwrap_err().to_string();
        assert!(
            error.contains("`oracle`") && error.contains("postgres, pgbouncer"),
            "{error}"
        );
    }

    #[test]
    fn what_stands_in_front_of_a_server_comes_after_it() {
        for (index, known) in servers().iter().enumerate() {
            let earlier: Vec<_> = servers()[..index].iter().map(|other| other.name).collect();
            assert!(
                known
                    .upstream
                    .is_none_or(|upstream| earlier.contains(&upstream))
            );
        }
    }

    #[test]
    fn only_servers_that_run_here_or_answer_are_products() {
        for server in servers() {
            assert!(server.probe(&server.url(1)).is_err(), "{}", server.name);
        }
    }
}
