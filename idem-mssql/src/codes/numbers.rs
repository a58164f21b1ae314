//! Numbers of SQL Server and Azure SQL.
//!
//! From
//! <https://learn.microsoft.com/sql/relational-databases/errors-events/database-engine-events-and-errors>
//! and <https://learn.microsoft.com/azure/azure-sql/database/troubleshoot-common-errors-issues>. An
//! error in a statement rolls the statement back, and one at the login comes before any statement,
//! so most have no effect. Where the server ends the session, or loses the network, the commit may
//! have come first: the effect is unknown.

use idem_core::{Effect, ErrorKind};

use super::Meaning;

/// Rows with one meaning.
type Row = (ErrorKind, Effect, &'static str, &'static [u32]);

/// The statement lost to another transaction and has been rolled back; repeating it is safe.
const CONTENTION: &[Row] = &[
    (
        ErrorKind::Contention,
        Effect::None,
        "the server broke a deadlock (1205); repeat the whole transaction",
        &[1205],
    ),
    (
        ErrorKind::Contention,
        Effect::None,
        "a lock was not free in time (1222, LOCK_TIMEOUT)",
        &[1222],
    ),
    // 3961: the table was altered; 3966: a victim of the version store; 41839: too many
    // transactions to wait for.
    (
        ErrorKind::Contention,
        Effect::None,
        "a concurrent transaction got in the way (3960, 3961, 3966, 41301 to 41839); repeat the whole transaction",
        &[3960, 3961, 3966, 41301, 41302, 41305, 41325, 41839, 669],
    ),
    (
        ErrorKind::Contention,
        Effect::None,
        "another claim of the key came first (2601, 2627); ask again",
        &[2601, 2627],
    ),
];

/// An operator has to change something first. The server refused the statement or the login.
const SET_UP: &[Row] = &[
    (
        ErrorKind::Misconfigured,
        Effect::None,
        "the table is missing or of another version; run `migrate()` or the printed schema, and check schema and \
         table names",
        &[
            206, 207, 208, 209, 213, 245, 257, 260, 271, 273, 544, 1088, 8114,
        ],
    ),
    (
        ErrorKind::Misconfigured,
        Effect::None,
        "a column is shorter than this crate makes it (2628, 8152); compare the table with the printed schema",
        &[2628, 8152],
    ),
    (
        ErrorKind::Misconfigured,
        Effect::None,
        "a constraint that is not this crate's refuses the row (515, 547, 33504); compare the table with the printed \
         schema",
        &[515, 547, 33504],
    ),
    (
        ErrorKind::Misconfigured,
        Effect::None,
        "the user lacks a permission (229, 230, 262); grant SELECT, INSERT, UPDATE and DELETE on the table",
        &[229, 230, 262, 297, 300, 2760, 15151, 15247],
    ),
    (
        ErrorKind::Misconfigured,
        Effect::None,
        "the server refused the user, the password or the database (18456, 911, 916)",
        &[
            911, 916, 4064, 18450, 18452, 18456, 18470, 18486, 18487, 18488, 40531, 40532, 40852,
        ],
    ),
    (
        ErrorKind::Misconfigured,
        Effect::None,
        "the server's firewall keeps this address out (40615)",
        &[40615],
    ),
    (
        ErrorKind::Misconfigured,
        Effect::None,
        "the table has a trigger (334, 3609), and a statement with OUTPUT cannot run beside one; drop it",
        &[334, 3609],
    ),
    (
        ErrorKind::Misconfigured,
        Effect::None,
        "snapshot isolation is not allowed in this database (3952); set ALLOW_SNAPSHOT_ISOLATION ON",
        &[3952],
    ),
    (
        ErrorKind::Misconfigured,
        Effect::None,
        "the session's SET options do not suit a filtered index (1934); leave QUOTED_IDENTIFIER and the ANSI options on",
        &[1934],
    ),
    // 8622: no plan obeys the hints, as when an index is missing or locks on rows are switched off.
    (
        ErrorKind::Misconfigured,
        Effect::None,
        "the server does not know the statement (102, 156, 195, 8622); it may not be SQL Server: see `ClaimMethod`",
        &[102, 156, 195, 319, 2812, 8622, 40517, 40518],
    ),
];

/// The error passes by itself, or with the help of an operator; the statement was refused or rolled
/// back.
const PASSING: &[Row] = &[
    (
        ErrorKind::Unavailable,
        Effect::None,
        "the database only reads (3906, 978): a secondary, or set so; connect to the primary",
        &[978, 979, 982, 3906],
    ),
    // Starting, recovering, restoring, in transition, a mirror, without a quorum: each is reported
    // when the database is opened.
    (
        ErrorKind::Unavailable,
        Effect::None,
        "the database is not open (921, 922, 926, 952, 983): it recovers, moves or is offline; try again",
        &[
            904, 905, 913, 921, 922, 923, 924, 926, 927, 929, 940, 941, 942, 945, 952, 953, 954,
            955, 956, 959, 967, 971, 972, 976, 983, 988, 3908, 4221,
        ],
    ),
    // Of Azure, while it moves a database: the login fails for some seconds.
    (
        ErrorKind::Unavailable,
        Effect::None,
        "the server does not open the database or the way to it for now (4060, 40914, 47073); if that lasts, check \
         the database's name and the server's network rules",
        &[4060, 40914, 47073],
    ),
    (
        ErrorKind::Unavailable,
        Effect::None,
        "the server takes no connections for now (17142, 17187, 17809, 18401): it starts, is paused, upgrades or is full",
        &[
            17142, 17187, 17197, 17809, 17810, 17889, 18401, 18451, 18461,
        ],
    ),
    (
        ErrorKind::Unavailable,
        Effect::None,
        "the database is not available for now (40501, 40613, 4992x, 1092x): throttled, busy or moving; try again",
        &[
            10928, 10929, 10930, 10931, 10936, 40501, 40613, 40627, 40642, 40648, 40671, 40675,
            42108, 42109, 42119, 45156, 45157, 45168, 45169, 49918, 49919, 49920,
        ],
    ),
    (
        ErrorKind::Unavailable,
        Effect::None,
        "the server is out of a resource (1105, 9002, 701): disk, log, memory, locks or sessions",
        &[
            701, 802, 1101, 1104, 1105, 1121, 1204, 3958, 3959, 3967, 8628, 8645, 8651, 8657, 9002,
            40544, 40545, 41805, 41822, 41823, 41840,
        ],
    ),
    (
        ErrorKind::Unavailable,
        Effect::None,
        "the server cancelled the statement (3617); a person or the client did",
        &[3204, 3617],
    ),
];

/// The session ends, perhaps between the commit and its answer.
const ENDED: &[Row] = &[
    (
        ErrorKind::Unavailable,
        Effect::Unknown,
        "the database moves or restarts (40197, 40540, 40143, 40166); try again",
        &[
            615, 1219, 3313, 3314, 3315, 9001, 40143, 40166, 40189, 40197, 40540,
        ],
    ),
    (
        ErrorKind::Unavailable,
        Effect::Unknown,
        "the server ended the session for what it held (40549 to 40553); keep transactions short",
        &[40549, 40550, 40551, 40552, 40553],
    ),
    // 2, 20, 53, 64, 121, 233, 258, 10053 and the like come from the network below.
    (
        ErrorKind::Unavailable,
        Effect::Unknown,
        "the connection to the server was lost, or the server ended it",
        &[
            2, 20, 21, 53, 64, 121, 233, 258, 596, 844, 845, 846, 847, 997, 4014, 6002, 6005, 7884,
            7885, 7886, 10053, 10054, 10060, 10061, 11001, 17147, 17830, 17835, 17836, 18056,
        ],
    ),
];

/// These errors neither pass by themselves nor depend on settings.
const BROKEN: &[Row] = &[
    (
        ErrorKind::Corrupt,
        Effect::Unknown,
        "the server reports corruption (823, 824, 605)",
        &[605, 823, 824, 825, 829, 3624, 8646],
    ),
    // The token, `max(previous + 1, clock)`, is the only number that grows without an earlier
    // check.
    (
        ErrorKind::Corrupt,
        Effect::None,
        "a record's fencing token cannot grow any more (8115); somebody wrote a token from outside, or a server's \
         clock was wrong by far: delete the record, or set its token to one of now, when no holder of the key is left",
        &[220, 8115],
    ),
    (
        ErrorKind::Other,
        Effect::None,
        "the transaction is gone or has failed before (3902, 3903, 3930); repeat it as a whole",
        &[3902, 3903, 3910, 3930, 3988, 3989, 3998],
    ),
    (
        ErrorKind::Other,
        Effect::None,
        "the server does not take the request's parameters (8003 to 8023)",
        &[8003, 8010, 8016, 8023],
    ),
];

const TABLES: [&[Row]; 5] = [CONTENTION, SET_UP, PASSING, ENDED, BROKEN];

/// Returns the meaning of a number; `None` for a number that is in no table.
pub(super) fn meaning(code: u32) -> Option<Meaning> {
    let mut rows = TABLES.into_iter().flatten();
    let &(kind, effect, message, _) = rows.find(|(.., codes)| codes.contains(&code))?;
    Some((kind, effect, message))
}

#[cfg(test)]
pub(super) fn all() -> impl Iterator<Item = u32> {
    let rows = TABLES.into_iter().flatten();
    rows.flat_map(|(.., codes)| codes.iter().copied())
}
