//! The official images, and how to start them.

use crate::{Error, Result};

/// One image.
pub(crate) struct Image {
    /// The short name of its server, in variables and labels.
    pub(crate) name: &'static str,
    /// The image with a pinned tag; `IDEM_<NAME>_IMAGE` names another.
    pub(crate) default: &'static str,
    /// The port inside the container.
    pub(crate) port: u16,
    /// The URL for clients, with `{address}` for the host and its port.
    pub(crate) url: &'static str,
    pub(crate) environment: &'static [(&'static str, &'static str)],
    pub(crate) files: &'static [(&'static str, &'static str)],
    pub(crate) arguments: &'static [&'static str],
    /// A shell command of the image that succeeds once the server takes connections from outside. The
    /// first word that it prints is the version.
    pub(crate) question: &'static str,
    /// The variable, with the value `Y`, by which the user accepts the licence; the container gets
    /// it, too.
    pub(crate) licence: Option<&'static str>,
}

/// Data is thrown away, so servers force nothing to disk. Cases open many connections.
const IMAGES: &[Image] = &[
    Image {
        name: "postgres",
        default: "postgres:17.6-alpine",
        port: 5432,
        url: "postgres://postgres@{address}/idem",
        environment: &[
            ("POSTGRES_HOST_AUTH_METHOD", "trust"),
            ("POSTGRES_DB", "idem"),
        ],
        arguments: &[
            "postgres",
            "-c",
            "max_connections=300",
            "-c",
            "fsync=off",
            "-c",
            "synchronous_commit=off",
            "-c",
            "full_page_writes=off",
        ],
        // While the image creates its data, its server listens only at the socket.
        question: "psql -XAtqc 'SHOW server_version' postgres://postgres@127.0.0.1/idem",
        ..NONE
    },
    Image {
        name: "mysql",
        default: "mysql:9.4.0",
        environment: &[
            ("MYSQL_ALLOW_EMPTY_PASSWORD", "1"),
            ("MYSQL_USER", "idem"),
            ("MYSQL_PASSWORD", "idem"),
            ("MYSQL_DATABASE", "idem"),
        ],
        arguments: &[
            "mysqld",
            "--max-connections=500",
            "--skip-log-bin",
            "--mysqlx=OFF",
            "--innodb-flush-log-at-trx-commit=2",
            "--innodb-flush-method=nosync",
        ],
        question: "mysql -h127.0.0.1 -uidem -pidem -BNe 'SELECT version()'",
        ..MARIADB
    },
    MARIADB,
    Image {
        name: "redis",
        default: "redis:7.4",
        port: 6379,
        url: "redis://{address}",
        arguments: &[
            "redis-server",
            "--save",
            "",
            "--appendonly",
            "no",
            "--repl-diskless-sync-delay",
            "0",
        ],
        question: "redis-cli INFO server | sed -n s/^redis_version://p | grep .",
        ..NONE
    },
    Image {
        name: "valkey",
        default: "valkey/valkey:8.1",
        port: 6379,
        url: "redis://{address}",
        arguments: &[
            "valkey-server",
            "--save",
            "",
            "--appendonly",
            "no",
            "--repl-diskless-sync-delay",
            "0",
        ],
        question: "valkey-cli INFO server | sed -n s/^valkey_version://p | grep .",
        ..NONE
    },
    Image {
        name: "mongo",
        default: "mongo:8.0",
        port: 27017,
        // The only member of the set calls itself by an address inside the container.
        url: "mongodb://{address}/?directConnection=true",
        arguments: &[
            "--bind_ip_all",
            "--replSet",
            "idem",
            "--wiredTigerCacheSizeGB",
            "0.25",
        ],
        question: "mongosh --quiet --eval \"try { rs.status() } catch (error) { \
                   rs.initiate({_id: 'idem', members: [{_id: 0, host: '127.0.0.1:27017'}]}) } \
                   if (!db.hello().isWritablePrimary) quit(1); print(db.version())\"",
        ..NONE
    },
    Image {
        name: "mssql",
        default: "mcr.microsoft.com/mssql/server:2022-latest",
        port: 1433,
        url: "mssql://sa:Idem_Tests_1@{address}/master?trust_cert=true",
        // The image refuses a weaker password.
        environment: &[
            ("MSSQL_SA_PASSWORD", "Idem_Tests_1"),
            ("MSSQL_PID", "Developer"),
        ],
        question: "/opt/mssql-tools18/bin/sqlcmd -b -C -S 127.0.0.1 -U sa -P \"$MSSQL_SA_PASSWORD\" \
                   -h -1 -W -Q \"SET NOCOUNT ON; SELECT SERVERPROPERTY('ProductVersion')\"",
        licence: Some("ACCEPT_EULA"),
        ..NONE
    },
    Image {
        name: "dynamodb",
        default: "amazon/dynamodb-local:3.1.0",
        port: 8000,
        url: "http://{address}",
        arguments: &["-jar", "DynamoDBLocal.jar", "-sharedDb", "-inMemory"],
        question: "curl --silent --output /dev/null http://127.0.0.1:8000",
        licence: Some("ACCEPT_DYNAMODB_LOCAL_LICENCE"),
        ..NONE
    },
    Image {
        name: "nats",
        // The image without a suffix has no shell.
        default: "nats:2.10-alpine",
        port: 4222,
        url: "nats://{address}",
        arguments: &["-js", "-m", "8222"],
        question: "wget -q -O /dev/null http://127.0.0.1:8222/healthz && \
                   nats-server --version | sed 's/.*v//'",
        ..NONE
    },
];

const MARIADB: Image = Image {
    name: "mariadb",
    default: "mariadb:11.8.3",
    port: 3306,
    url: "mysql://idem:idem@{address}/idem",
    environment: &[
        ("MARIADB_ALLOW_EMPTY_ROOT_PASSWORD", "1"),
        ("MARIADB_USER", "idem"),
        ("MARIADB_PASSWORD", "idem"),
        ("MARIADB_DATABASE", "idem"),
    ],
    // The image's own user has no privilege outside of its database.
    files: &[(
        "/docker-entrypoint-initdb.d/idem.sql",
        "GRANT ALL PRIVILEGES ON *.* TO 'idem'@'%' WITH GRANT OPTION;\n",
    )],
    arguments: &[
        "mariadbd",
        "--max-connections=500",
        "--skip-log-bin",
        "--innodb-flush-log-at-trx-commit=2",
        "--innodb-flush-method=nosync",
    ],
    question: "mariadb -h127.0.0.1 -uidem -pidem -BNe 'SELECT version()'",
    ..NONE
};

const NONE: Image = Image {
    name: "",
    default: "",
    port: 0,
    url: "",
    environment: &[],
    files: &[],
    arguments: &[],
    question: "",
    licence: None,
};

/// Returns the names that [`start`](crate::start) knows.
pub fn names() -> impl Iterator<Item = &'static str> {
    IMAGES.iter().map(|image| image.name)
}

impl Image {
    pub(crate) fn named(name: &str) -> Result<&'static Self> {
        let unknown = || {
            let known: Vec<_> = names().collect();
            let known = known.join(", ");
            Error::failed(format!("there is no image of `{name}`, only of {known}"))
        };
        let mut images = IMAGES.iter();
        images.find(|image| image.name == name).ok_or_else(unknown)
    }

    /// Returns a variable of the environment by its end, unless it is empty: `IDEM_REDIS_IMAGE`.
    pub(crate) fn variable(&self, end: &str) -> Option<String> {
        environment(&format!("IDEM_{}_{end}", self.name.to_uppercase()))
    }

    /// Returns the name and the tag.
    pub(crate) fn name_and_tag(&self) -> (String, String) {
        split(
            &self
                .variable("IMAGE")
                .unwrap_or_else(|| self.default.into()),
        )
    }

    pub(crate) fn check_licence(&self) -> Result<()> {
        let is_accepted = |variable: &str| environment(variable).is_some_and(|value| value == "Y");
        match self.licence.filter(|variable| !is_accepted(variable)) {
            Some(variable) => Err(Error::missing(format!(
                "the licence of its image is not accepted ({variable}=Y does so)"
            ))),
            None => Ok(()),
        }
    }
}

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The port of a registry is no tag.
fn split(image: &str) -> (String, String) {
    let tagged = image.rsplit_once(':').filter(|(_, tag)| !tag.contains('/'));
    let (name, tag) = tagged.unwrap_or((image, "latest"));
    (name.into(), tag.into())
}

#[cfg(test)]
mod tests {
    use super::{IMAGES, Image, split};

    #[test]
    fn no_licence_is_accepted_on_anybodys_behalf() {
        let with = |image: &&Image| image.licence.is_some();
        assert_eq!(IMAGES.iter().filter(with).count(), 2);
        for image in IMAGES {
            let mut given = image.environment.iter().map(|(name, _)| *name);
            assert!(given.all(|name| Some(name) != image.licence));
        }
    }

    #[test]
    fn every_image_is_whole_and_pinned() {
        for image in IMAGES {
            assert!(!image.question.is_empty() && image.url.contains("{address}"));
            assert!(
                image.port > 0 && image.default.contains(':'),
                "{}",
                image.name
            );
        }
    }

    #[test]
    fn the_port_of_a_registry_is_no_tag() {
        let of = |image| split(image);
        let pair = |name: &str, tag: &str| (name.to_owned(), tag.to_owned());
        assert_eq!(of("redis:7.4"), pair("redis", "7.4"));
        assert_eq!(of("here:5000/redis"), pair("here:5000/redis", "latest"));
        assert_eq!(of("here:5000/redis:7"), pair("here:5000/redis", "7"));
    }
}
