"""Parses T-SQL with sqlglot, which somebody else wrote.

Reads scripts from standard input: a line with the name, a line with the number of lines, and the lines.
"""
import re
import sys

import sqlglot
from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError

# What a statement that begins with this word has to be understood as; anything else is text that was not parsed.
KINDS = {
    "BEGIN": exp.Transaction,
    "COMMIT": exp.Commit,
    "CREATE": exp.Create,
    "DECLARE": exp.Declare,
    "DELETE": exp.Delete,
    "EXEC": exp.Execute,
    "INSERT": exp.Insert,
    "MERGE": exp.Merge,
    "ROLLBACK": exp.Rollback,
    "SELECT": exp.Select,
    "SET": exp.Set,
    "UPDATE": exp.Update,
}

COMMENT = re.compile(r"--.*")
# sqlglot is lax about what it finds in a block, so the blocks are taken apart.
CONDITION = re.compile(r"^IF (.*)$", re.MULTILINE)
BLOCK = re.compile(r"^\s*(BEGIN|END;)\s*$", re.MULTILINE)
# It knows `DELETE TOP`, but not this.
UPDATE_TOP = re.compile(r"^UPDATE TOP \(@P1\)")
# It knows `OPTION` after a query, but not after these.
OPTION = re.compile(r"^((?:MERGE|UPDATE)\b.*)^OPTION \(LOOP JOIN, FORCE ORDER\)$", re.MULTILINE | re.DOTALL)

# It knows joins of an UPDATE, but not with a comma, which is the form that all servers take, and a table comes first.
COMMA = re.compile(r"^FROM (\(VALUES\b.*?^ *\) AS s \([\w, ]+\)), (\[[^\n]*)$", re.MULTILINE | re.DOTALL)


def parse(text):
    trees = sqlglot.parse(text, read="tsql", error_level=ErrorLevel.RAISE)
    if len(trees) != 1 or trees[0] is None:
        raise SqlglotError(f"{len(trees)} statements instead of one")
    if any(trees[0].find_all(exp.Command)):
        raise SqlglotError("kept as text")
    return trees[0]


def check(statement):
    known = COMMA.sub(r"FROM \2 CROSS JOIN \1", OPTION.sub(r"\1", UPDATE_TOP.sub("UPDATE", statement)))
    tree = parse(known)
    kind = KINDS[re.match(r"\w+", statement).group()]
    if not isinstance(tree, kind):
        raise SqlglotError(f"understood as {type(tree).__name__}")
    for clause, found in ("OUTPUT", tree.args.get("returning")), ("WHERE", tree.args.get("where")):
        outside = re.search(rf"^{clause}\b", statement, re.MULTILINE)
        if outside and kind is not exp.Insert and not found:
            raise SqlglotError(f"{clause} was not seen")


def pieces(script):
    """The conditions as statements, and the statements outside of any block."""
    script = COMMENT.sub("", script)
    for condition in CONDITION.findall(script):
        yield f"SELECT 1 WHERE {condition}"
    for statement in BLOCK.sub("", CONDITION.sub("", script)).split(";"):
        if statement.strip():
            yield statement.strip()


def scripts(lines):
    for name in lines:
        count = int(next(lines))
        yield name.strip(), "".join(next(lines) for _ in range(count))


def main():
    failed, parsed = False, 0
    for name, script in scripts(sys.stdin):
        for piece in pieces(script):
            parsed += 1
            try:
                check(piece)
            except (SqlglotError, KeyError) as error:
                print(f"{name}: {error!r}\n{piece}\n", file=sys.stderr)
                failed = True
    # A test that parses nothing passes, too.
    sys.exit(failed or parsed < 100)


main()
