//! Numbers of SQL Server and Azure SQL.
//!
//! From
//! <https://learn.microsoft.com/sql/relational-databases/errors-events/database-engine-events-and-errors>
//! and <https://learn.microsoft.com/azure/azure-sql/database/troubleshoot-common-errors-issues>. An
//! error in a statement rolls the statement back, and one at the login comes before any statement,
//! so most have no effect. Where the server ends the session, or loses the network, the commit may
//! have come first: the effect is unknown.

use idem_core::backend::{Codes, error_codes};

pub(super) const NUMBERS: Codes<u32> = error_codes! {
    // The statement lost to another transaction and has been rolled back; repeating it is safe.

    Contention None [1205] => "the server broke a deadlock (1205); repeat the whole transaction";
    Contention None [1222] => "a lock was not free in time (1222, LOCK_TIMEOUT)";
    // 3961: the table was altered; 3966: a victim of the version store; 41839: too many
    // transactions to wait for.
    Contention None [3960, 3961, 3966, 41301, 41302, 41305, 41325, 41839, 669] =>
        "a concurrent transaction got in the way (3960, 3961, 3966, 41301 to 41839); repeat the \
         whole transaction";
    Contention None [2601, 2627] => "another claim of the key came first (2601, 2627); ask again";

    // An operator has to change something first. The server refused the statement or the login.

    Misconfigured None [206, 207, 208, 209, 213, 245, 257, 260, 271, 273, 544, 1088, 8114] =>
        "the table is missing or of another version; run `migrate()` or the printed schema, and \
         check schema and table names";
    Misconfigured None [2628, 8152] =>
        "a column is shorter than this crate makes it (2628, 8152); compare the table with the \
         printed schema";
    Misconfigured None [515, 547, 33504] =>
        "a constraint that is not this crate's refuses the row (515, 547, 33504); compare the \
         table with the printed schema";
    Misconfigured None [229, 230, 262, 297, 300, 2760, 15151, 15247] =>
        "the user lacks a permission (229, 230, 262); grant SELECT, INSERT, UPDATE and DELETE on \
         the table";
    Misconfigured None [
        911, 916, 4064, 18450, 18452, 18456, 18470, 18486, 18487, 18488, 40531, 40532, 40852,
    ] =>
        "the server refused the user, the password or the database (18456, 911, 916); \
         correct them in the URL";
    Misconfigured None [40615] => "the server's firewall keeps this address out (40615)";
    Misconfigured None [334, 3609] =>
        "the table has a trigger (334, 3609), and a statement with OUTPUT cannot run beside one; \
         drop it";
    Misconfigured None [3952] =>
        "snapshot isolation is not allowed in this database (3952); set ALLOW_SNAPSHOT_ISOLATION \
         ON";
    Misconfigured None [1934] =>
        "the session's SET options do not suit a filtered index (1934); leave QUOTED_IDENTIFIER \
         and the ANSI options on";
    // 8622: no plan obeys the hints, as when an index is missing or locks on rows are switched off.
    Misconfigured None [102, 156, 195, 319, 2812, 8622, 40517, 40518] =>
        "the server does not know the statement (102, 156, 195, 8622); it may not be SQL Server: \
         see `ClaimMethod`";

    // The error passes by itself, or with the help of an operator; the statement was refused or rolled
    // back.

    Unavailable None [978, 979, 982, 3906] =>
        "the database only reads (3906, 978): a secondary, or set so; connect to the primary";
    // Starting, recovering, restoring, in transition, a mirror, without a quorum: each is reported
    // when the database is opened.
    Unavailable None [
        904, 905, 913, 921, 922, 923, 924, 926, 927, 929, 940, 941, 942, 945, 952, 953, 954, 955,
        956, 959, 967, 971, 972, 976, 983, 988, 3908, 4221,
    ] =>
        "the database is not open (921, 922, 926, 952, 983): it recovers, moves or is offline; try \
         again";
    // Of Azure, while it moves a database: the login fails for some seconds.
    Unavailable None [4060, 40914, 47073] =>
        "the server does not open the database or the way to it for now (4060, 40914, 47073); if \
         that lasts, check the database's name and the server's network rules";
    Unavailable None [17142, 17187, 17197, 17809, 17810, 17889, 18401, 18451, 18461] =>
        "the server takes no connections for now (17142, 17187, 17809, 18401): it starts, is \
         paused, upgrades or is full";
    Unavailable None [
        10928, 10929, 10930, 10931, 10936, 40501, 40613, 40627, 40642, 40648, 40671, 40675, 42108,
        42109, 42119, 45156, 45157, 45168, 45169, 49918, 49919, 49920,
    ] =>
        "the database is not available for now (40501, 40613, 4992x, 1092x): throttled, busy or \
         moving; try again";
    Unavailable None [
        701, 802, 1101, 1104, 1105, 1121, 1204, 3958, 3959, 3967, 8628, 8645, 8651, 8657, 9002,
        40544, 40545, 41805, 41822, 41823, 41840,
    ] =>
        "the server is out of a resource (1105, 9002, 701): disk, log, memory, locks or sessions";
    Unavailable None [3204, 3617] =>
        "the server cancelled the statement (3617); a person or the client did";

    // The session ends, perhaps between the commit and its answer.

    Unavailable Unknown [615, 1219, 3313, 3314, 3315, 9001, 40143, 40166, 40189, 40197, 40540] =>
        "the database moves or restarts (40197, 40540, 40143, 40166); try again";
    Unavailable Unknown [40549, 40550, 40551, 40552, 40553] =>
        "the server ended the session for what it held (40549 to 40553); keep transactions short";
    // 2, 20, 53, 64, 121, 233, 258, 10053 and the like come from the network below.
    Unavailable Unknown [
        2, 20, 21, 53, 64, 121, 233, 258, 596, 844, 845, 846, 847, 997, 4014, 6002, 6005, 7884,
        7885, 7886, 10053, 10054, 10060, 10061, 11001, 17147, 17830, 17835, 17836, 18056,
    ] =>
        "the connection to the server was lost, or the server ended it";

    // These errors neither pass by themselves nor depend on settings.

    Corrupt Unknown [605, 823, 824, 825, 829, 3624, 8646] =>
        "the server reports corruption (823, 824, 605)";
    // The token, `max(previous + 1, clock)`, is the only number that grows without an earlier
    // check.
    Corrupt None [220, 8115] =>
        "a record's fencing token cannot grow any more (8115); somebody wrote a token from \
         outside, or a server's clock was wrong by far: delete the record, or set its token to one \
         of now, when no holder of the key is left";
    Other None [3902, 3903, 3910, 3930, 3988, 3989, 3998] =>
        "the transaction is gone or has failed before (3902, 3903, 3930); repeat it as a whole";
    Other None [8003, 8010, 8016, 8023] =>
        "the server does not take the request's parameters (8003 to 8023)";
};
