/// What a load generator does over and over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Statement {
    /// Inserts a key that is not there: `INSERT … ON CONFLICT DO NOTHING`, `SET … NX PX`.
    Insert,
    /// Reads a key that is there: `SELECT … WHERE id = …`, `GET`.
    Select,
    /// Inserts a key and then, as a statement of its own, writes the response to it: a claim and its completion.
    InsertUpdate,
}
