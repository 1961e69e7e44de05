#!/usr/bin/env python3
"""A database of the size at which the console is measured. Standard library, `sqlite3` and `psql`.

    fill.py seed BASE_URL EMAIL PASSWORD API_KEY      makes 1,000 traces of two or three steps on a running gateway
    fill.py grow FOLDER_OF_SQLITE|POSTGRES_URL TRACES  copies them over the last 30 days (the gateway is stopped)

The copies are rows: their steps have no contents. Usage is computed from them as the gateway records it. Their
sessions are their own, a third as many as traces, which groups show; a list by session finds the originals only.
"""
import concurrent.futures
import hashlib
import http.client
import json
import os
import sqlite3
import subprocess
import sys
import urllib.parse

DAYS = 30
# The ids of steps of a day, whose number since 1970 is the first part of the id (crates/store/src/partitions).
DAY_IDS = 1_000_000_000
WORDS = "invoice meeting figures Friday contract summary customer answer table release weather budget".split()


class Gateway:
    def __init__(self, base):
        self.address = urllib.parse.urlsplit(base).netloc

    def call(self, method, path, body, headers):
        connection = http.client.HTTPConnection(self.address, timeout=60)
        connection.request(method, "/api/v1" + path, json.dumps(body), {"content-type": "application/json", **headers})
        response = connection.getresponse()
        read = response.read()
        if response.status >= 300:
            sys.exit(f"{method} {path}: {response.status} {read.decode()}")
        return response, json.loads(read or b"null")


def seed(base, email, password, key):
    gateway = Gateway(base)
    response, _ = gateway.call("POST", "/session", {"email": email, "password": password}, {})
    cookie = {"cookie": response.getheader("set-cookie").split(";")[0]}
    limits = {"requests_per_hour": None, "loop_requests": None}
    gateway.call("PATCH", "/projects/1", {"project": {"settings": {"limits": limits}}}, cookie)
    keys = [key]
    for name in ("orders", "support", "search"):
        keys.append(gateway.call("POST", "/keys", {"name": name, "project_id": 1}, cookie)[1]["raw_key"])

    def trace(n):
        key = {"authorization": "Bearer " + keys[n % len(keys)]}
        metadata = {"user": f"user-{n % 173}", "session": f"session-{n // 3}", "tags": {"team": f"team-{n % 12}"}}
        _, opened = gateway.call("POST", "/traces", {"metadata": metadata, "revenue": 0.01}, key)
        text = " ".join(WORDS[(n * 7 + i * i) % len(WORDS)] for i in range(20 + n % 60))
        if n % 9 == 0:
            text += " Write to jane.doe@example.com."
        gateway.call("POST", "/checks", {"trace_id": opened["id"], "input": text}, key)
        for _ in range(1 + n % 2):
            gateway.call("POST", "/executions", {"trace_id": opened["id"], "input": f"Question {n}: {text}"}, key)
        gateway.call("PATCH", f"/traces/{opened['id']}/complete", None, key)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(trace, range(1000)))


# Statements for both databases: `{later}` microseconds before the original, `{copied}` the id of a copy.
# Tables are grown from `traces` and `steps` as they are, copy by copy.
GROW = [
    """INSERT INTO traces ({traces})
       SELECT {traces_of_copy} FROM base_traces CROSS JOIN copies""",
    """INSERT INTO trace_terms (project_id, term, trace_id)
       SELECT project_id, term, {copied_trace} FROM base_terms CROSS JOIN copies""",
    """INSERT INTO steps ({steps})
       SELECT {steps_of_copy} FROM base_steps CROSS JOIN copies""",
    """DELETE FROM usage_ledger""",
    """INSERT INTO usage_ledger
       SELECT 1, finished_at / 60000000, project_id, COALESCE(key_id, 0), COALESCE(model, ''),
              COALESCE(infrastructure, ''), COALESCE(tier, ''), count(*),
              sum(CASE WHEN status = 'blocked' THEN 1 ELSE 0 END), sum(CASE WHEN status = 'failed' THEN 1 ELSE 0 END),
              COALESCE(sum(prompt_tokens), 0), COALESCE(sum(cached_tokens), 0), COALESCE(sum(completion_tokens), 0),
              COALESCE(sum(cost), 0), sum(finished_at - started_at), (SELECT latency_sketch FROM base_sketch)
       FROM steps WHERE kind = 'run' GROUP BY 1, 2, 3, 4, 5, 6, 7""",
    """DELETE FROM usage_groups""",
    """DELETE FROM usage_grouped""",
    """UPDATE counters SET value = (SELECT max(id) FROM steps) + 1 WHERE name = 'step'""",
]
BASE = [
    "CREATE {temporary} TABLE base_traces AS SELECT * FROM traces",
    "CREATE {temporary} TABLE base_terms AS SELECT * FROM trace_terms",
    "CREATE {temporary} TABLE base_steps AS SELECT * FROM steps",
    "CREATE {temporary} TABLE base_sketch AS SELECT latency_sketch FROM usage_ledger LIMIT 1",
]
TIMES = {"created_at", "completed_at", "active_at", "started_at", "finished_at"}


def statements(columns, copied_trace, earlier, copied_step):
    """The statements that grow the tables, with the expressions of one database."""
    def of_copy(table, trace):
        def expression(column):
            if column in TIMES:
                return f"{column} - {earlier(trace)}"
            if column == "session":
                return "NULL"
            if column == "attr_session":
                return "attr_session || '-' || n"
            if table == "traces" and column == "id" or column == "trace_id":
                return copied_trace(trace)
            if column in ("id", "parent_step_id"):
                return copied_step(column, trace)
            return column
        return ", ".join(expression(column) for column in columns[table])

    names = {"traces": ", ".join(columns["traces"]), "steps": ", ".join(columns["steps"]),
             "traces_of_copy": of_copy("traces", "base_traces.id"), "steps_of_copy": of_copy("steps", "base_steps.trace_id"),
             "copied_trace": copied_trace("base_terms.trace_id")}
    return [statement.format(**names) for statement in GROW]


def grow_sqlite(folder, wanted):
    db = sqlite3.connect(os.path.join(folder, "sluice.db"))
    db.execute("PRAGMA synchronous = OFF")
    db.execute("PRAGMA cache_size = -2000000")
    for statement in BASE:
        db.execute(statement.format(temporary="TEMP"))
    have, = db.execute("SELECT count(*) FROM base_traces").fetchone()
    last, = db.execute("SELECT max(id) FROM base_steps").fetchone()
    number = wanted // have
    step = DAYS * 86_400_000 // number

    def millis(trace, n):
        return n * step + int.from_bytes(hashlib.md5(trace).digest()[:4], "big") % step

    def copied(trace, n):
        at = int.from_bytes(trace[:6], "big") - millis(trace, n)
        return at.to_bytes(6, "big") + trace[6:13] + n.to_bytes(3, "big")

    db.create_function("copied", 2, copied, deterministic=True)
    db.create_function("millis", 2, millis, deterministic=True)
    db.execute("CREATE TEMP TABLE copies (n INTEGER PRIMARY KEY)")
    db.executemany("INSERT INTO copies VALUES (?)", ((n,) for n in range(1, number)))
    columns = {table: [row[1] for row in db.execute(f"PRAGMA table_info({table})")] for table in ("traces", "steps")}
    for statement in statements(columns, lambda trace: f"copied({trace}, n)", lambda trace: f"millis({trace}, n) * 1000",
                                lambda step, trace: f"{step} + n * {last + 1}"):
        db.execute(statement)
    db.commit()
    db.execute("ANALYZE")
    db.commit()


def part_by_day(psql):
    """Gives each of the days a partition, as it has where a gateway has run since then."""
    bounds = psql("SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE relname = 'steps_before'")
    if not bounds:
        sys.exit("steps has no partitions yet: let the gateway run for a minute")
    end = int(bounds[-1].strip("()'")) // DAY_IDS
    first = end - DAYS - 3
    for table, key in (("steps", "id"), ("step_contents", "step_id")):
        before = f"{table}_before"
        psql("BEGIN", f"ALTER TABLE {table} DETACH PARTITION {before}",
             *(f"CREATE TABLE {table}_d{day} PARTITION OF {table} FOR VALUES FROM ({day * DAY_IDS}) TO ({(day + 1) * DAY_IDS})"
               for day in range(first, end)),
             f"INSERT INTO {table} SELECT * FROM {before} WHERE {key} >= {first * DAY_IDS}",
             f"DELETE FROM {before} WHERE {key} >= {first * DAY_IDS}",
             f"ALTER TABLE {table} ATTACH PARTITION {before} FOR VALUES FROM (MINVALUE) TO ({first * DAY_IDS})", "COMMIT")


def grow_postgres(url, wanted):
    def psql(*commands):
        settings = ("SET synchronous_commit = off", "SET maintenance_work_mem = '1GB'", "SET work_mem = '256MB'")
        script = ";\n".join([*settings, *commands, ""])
        return subprocess.run(["psql", "-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", url], input=script, text=True,
                              check=True, stdout=subprocess.PIPE).stdout.split()

    for statement in BASE:
        psql(statement.format(temporary="UNLOGGED"))
    have, most, unlike = psql("SELECT count(*) FROM base_traces", f"SELECT max(id % {DAY_IDS}) FROM base_steps",
                              f"SELECT count(*) = count(DISTINCT id % {DAY_IDS}) FROM base_steps")
    if unlike != "t":
        sys.exit("two steps have the same number of different days: seed a new database within one day")
    number = wanted // int(have)
    step = DAYS * 86_400_000 // number
    psql(f"CREATE UNLOGGED TABLE copies AS SELECT generate_series(1::bigint, {number - 1}) AS n")

    def millis(trace):
        return f"(n * {step} + (('x' || substr(md5({trace}::text), 1, 7))::bit(28)::bigint % {step}))"

    def plain(trace):
        return f"replace({trace}::text, '-', '')"

    def opened(trace):
        return f"(('x' || lpad(substr({plain(trace)}, 1, 12), 16, '0'))::bit(64)::bigint - {millis(trace)})"

    def copied(trace):
        return f"(lpad(to_hex({opened(trace)}), 12, '0') || substr({plain(trace)}, 13, 14) || lpad(to_hex(n), 6, '0'))::uuid"

    def copied_step(step, trace):
        return f"{opened(trace)} / 86400000 * {DAY_IDS} + {step} % {DAY_IDS} + n * {int(most) + 1}"

    columns = {table: psql("SELECT attname FROM pg_attribute WHERE attnum > 0 AND NOT attisdropped "
                           f"AND attrelid = '{table}'::regclass ORDER BY attnum") for table in ("traces", "steps")}
    part_by_day(psql)
    for statement in statements(columns, copied, lambda trace: f"{millis(trace)} * 1000", copied_step):
        psql(statement)
    psql("DROP TABLE base_traces, base_terms, base_steps, base_sketch, copies")
    psql("VACUUM (ANALYZE, FREEZE) traces", "VACUUM (ANALYZE, FREEZE) steps", "VACUUM (ANALYZE) trace_terms", "VACUUM (ANALYZE) usage_ledger")


if sys.argv[1:2] == ["seed"] and len(sys.argv) == 6:
    seed(*sys.argv[2:])
elif sys.argv[1:2] == ["grow"] and len(sys.argv) == 4:
    (grow_postgres if sys.argv[2].startswith("postgres") else grow_sqlite)(sys.argv[2], int(sys.argv[3]))
else:
    sys.exit(__doc__)
