"""Leaves out of a profile in text what tells the compiler little: thin.py LEAST SIZE < ALL > SOME

A function stays where one of its blocks was run LEAST times. One that never ran stays where it has SIZE counters:
known to be cold, it is made small. What serves calls in ways that the load does not take stays unknown."""

import re
import sys

least, size = int(sys.argv[1]), int(sys.argv[2])
# TLS, HTTP/2, PostgreSQL, Redis, other providers' formats, and what prompts may hold.
CRATES = "checks|counters|h2|providers|redis|rustls|sqlx_postgres"
NOT_LOADED = re.compile(rf"\d(?:{CRATES})|(?:{CRATES})\.\.")


def records(lines):
    """The lines of one function after the other; those of the head come with the first."""
    record = []
    for line in lines:
        if line.strip():
            record.append(line)
        elif record:
            yield record
            record = []
    if record:
        yield record


for record in records(sys.stdin):
    # The head of the file.
    while record and (record[0].startswith(":") or record[0].startswith("# IR")):
        sys.stdout.write(record.pop(0))
    if "# Counter Values:\n" not in record:
        continue
    begin = record.index("# Counter Values:\n") + 1
    number = int(record[record.index("# Num Counters:\n") + 1])
    most = max(map(int, record[begin : begin + number]))
    is_cold = most == 0 and number >= size and not NOT_LOADED.search(record[0])
    if most >= least or is_cold:
        sys.stdout.writelines(record)
        sys.stdout.write("\n")
