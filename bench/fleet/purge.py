#!/usr/bin/env python3
"""The purge of a day of steps on PostgreSQL: how long it takes, and what calls beside it notice.

    purge.py GATEWAY KIT --postgres URL [--steps 10000000] [--rate 100]        KIT: the folder of `upstream` and `pload`

Makes a database, fills the partition of a day that is 40 days ago with steps, contents and traces, and says that their
usage is summed, as it is when they come day by day. Then a gateway runs under a load of a fixed rate: a minute without
a purge, and from the next run of the job on until the tables are gone. The purge lasts from the beginning of the run
until the steps are gone for everybody. Standard library of Python and `psql`; loopback only.
"""
import argparse
import contextlib
import os
import pathlib
import secrets
import subprocess
import sys
import tempfile
import threading
import time

BENCH = pathlib.Path(__file__).resolve().parent.parent
sys.path += [str(BENCH / "perf")]
from chat_load import ChatLoad, capitals  # noqa: E402
from fleet import EMAIL, PASSWORD, Database, Node, free_port  # noqa: E402

DAY_IDS = 1_000_000_000
AGO = 40
STEPS_OF_TRACE = 5
CONTENT_BYTES = 300
# The lock that whoever makes and drops partitions holds (store/src/lock/postgres.rs).
PARTITIONS = 0x736C_7569_6365 + 4


def wait_for(database, condition, seconds):
    until = time.monotonic() + seconds
    while database.value(f"SELECT {condition}") != "t":
        if time.monotonic() > until:
            sys.exit(f"not within {seconds} s: {condition}")
        time.sleep(0.5)


def columns(database, table):
    return [name for name, in database.query(
        f"SELECT attname FROM pg_attribute WHERE attrelid = '{table}'::regclass AND attnum > 0 AND NOT attisdropped "
        "ORDER BY attnum")]


def fill(database, steps):
    """Gives the partition of a day copies of a recorded step, and a gap of partitions none."""
    day = int(time.time()) // 86_400 - AGO
    begin, end = day * DAY_IDS, (day + 1) * DAY_IDS
    [bound] = database.query("SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE relname = 'steps_before'")
    bound = int(bound[0].rsplit("('", 1)[1].split("'")[0])
    database.query("CREATE UNLOGGED TABLE base AS SELECT * FROM steps WHERE kind = 'run' LIMIT 1")
    database.query("CREATE UNLOGGED TABLE base_trace AS SELECT * FROM traces WHERE id = (SELECT trace_id FROM base)")
    parts = []
    for table in ("steps", "step_contents"):
        parts += [f"TRUNCATE {table}", f"ALTER TABLE {table} DETACH PARTITION {table}_before",
                  f"ALTER TABLE {table} ATTACH PARTITION {table}_before FOR VALUES FROM (MINVALUE) TO ({begin})",
                  f"CREATE TABLE {table}_d{day} PARTITION OF {table} FOR VALUES FROM ({begin}) TO ({end})",
                  f"CREATE TABLE {table}_d{day + 1} PARTITION OF {table} FOR VALUES FROM ({end}) TO ({bound})"]
    database.query("; ".join(parts))
    began = day * 86_400_000_000
    apart = 86_400_000_000 // steps
    uuid = f"('f0000000-0000-7000-8000-' || lpad(to_hex(n / {STEPS_OF_TRACE}), 12, '0'))::uuid"

    def copy(table, of, values, last):
        names = columns(database, of)
        chosen = ", ".join(values.get(name, f"base.{name}") for name in names)
        base = "base" if of == "steps" else "base_trace AS base"
        stride = 1 if of == "steps" else STEPS_OF_TRACE
        database.query(f"INSERT INTO {table} ({', '.join(names)}) SELECT {chosen} "
                       f"FROM generate_series(0::bigint, {last}, {stride}) n, {base}")

    at = f"{began}::bigint + n * {apart}"
    copy("traces", "traces", {"id": uuid, "created_at": at, "completed_at": f"{at} + 60000000", "status": "'completed'",
                              "active_at": "NULL", "session": "NULL"}, steps - 1)
    copy(f"steps_d{day}", "steps", {"id": f"{begin} + n", "trace_id": uuid, "started_at": at, "finished_at": f"{at} + 1000",
                                    "parent_step_id": "NULL"}, steps - 1)
    names = columns(database, "step_contents")
    filler = f"decode(repeat(md5(n::text), {CONTENT_BYTES // 16}), 'hex')"
    kinds = dict(database.query("SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
                                "WHERE attrelid = 'step_contents'::regclass AND attnum > 0 AND NOT attisdropped"))
    values = {name: f"{begin} + n" if name == "step_id" else filler if kinds[name] == "bytea" else "0" for name in names}
    database.query(f"INSERT INTO step_contents_d{day} ({', '.join(names)}) SELECT {', '.join(values.values())} "
                   f"FROM generate_series(0::bigint, {steps - 1}) n")
    # Their sums are made when they come, day by day.
    hour, minute = int(time.time()) // 3600, int(time.time()) // 60
    database.query(f"INSERT INTO usage_grouped (project_id, until) SELECT DISTINCT project_id, {hour} FROM base "
                   f"ON CONFLICT (project_id) DO UPDATE SET until = {hour}")
    database.query(f"INSERT INTO usage_spanned (project_id, until) SELECT DISTINCT project_id, {minute} FROM base "
                   f"ON CONFLICT (project_id) DO UPDATE SET until = {minute}")
    database.query("DROP TABLE base, base_trace")
    for table in ("traces", "steps", "step_contents"):
        database.query(f"VACUUM (ANALYZE) {table}")
    return day


class Watch(threading.Thread):
    """Looks when a run of the job begins, when the partition is detached, and when its table is gone."""

    def __init__(self, database, day):
        super().__init__(daemon=True)
        self.database, self.day = database, day
        self.run_began = self.gone = self.dropped = None
        self.start()

    def run(self):
        # One session for all looks.
        query = (f"SELECT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 "
                 f"AND classid::bigint = {PARTITIONS >> 32} AND objid::bigint = {PARTITIONS & 0xFFFFFFFF}), "
                 f"EXISTS (SELECT 1 FROM pg_inherits WHERE inhrelid = to_regclass('steps_d{self.day}')), "
                 f"to_regclass('steps_d{self.day}') IS NOT NULL;\n")
        psql = subprocess.Popen(["psql", "--no-psqlrc", "-qAt", "-d", self.database.url], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, text=True)
        while self.dropped is None:
            psql.stdin.write(query)
            psql.stdin.flush()
            runs, is_there, has_table = (word == "t" for word in psql.stdout.readline().strip().split("|"))
            now = time.monotonic()
            if self.gone is None:
                if not is_there:
                    self.gone = now
                elif not runs:
                    self.run_began = None
                elif self.run_began is None:
                    self.run_began = now
            if not has_table:
                self.dropped = now
            time.sleep(0.02)
        psql.stdin.close()
        psql.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gateway")
    parser.add_argument("kit")
    parser.add_argument("--postgres", required=True)
    parser.add_argument("--steps", type=int, default=10_000_000)
    parser.add_argument("--rate", type=int, default=100)
    args = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        database = stack.enter_context(Database(args.postgres))
        upstream = f"127.0.0.1:{free_port()}"
        provider = subprocess.Popen([f"{args.kit}/upstream"], env={**os.environ, "LISTEN": upstream})
        stack.callback(provider.wait)
        stack.callback(provider.kill)
        node = Node(0, os.path.abspath(args.gateway), folder,
                    {"SLUICE_DATABASE_URL": database.url, "SLUICE_MASTER_KEY": secrets.token_hex(32)})
        stack.callback(node.stop)
        measure(node, database, args, folder, upstream)


def measure(node, database, args, folder, upstream):
    node.start()
    load = ChatLoad(args.kit, folder, node.base, (EMAIL, PASSWORD), upstream, 1_000, capitals())
    load.run(node.process.pid, node.base, 2)
    wait_for(database, "EXISTS (SELECT 1 FROM pg_class WHERE oid = to_regclass('steps') AND relkind = 'p')", 120)
    node.stop()
    began = time.monotonic()
    day = fill(database, args.steps)
    print(f"{args.steps:,} steps of day {day} made in {time.monotonic() - began:.0f} s", flush=True)

    def calls(seconds):
        read = load.trickle(node.base, args.rate, seconds)
        lat = read["lat"]
        return (f"p50 {lat['p50']:.2f} ms, p99 {lat['p99']:.2f}, p99.9 {lat['p999']:.2f}, longest {lat['max']:.1f}; "
                f"{read['ok']} answered, {read['errors']} failed")

    hold = int((time.time() + 100) * 1e6)
    database.query(f"INSERT INTO counters (name, value) VALUES ('partitions_held', {hold}) "
                   f"ON CONFLICT (name) DO UPDATE SET value = {hold}")
    node.start()
    calls(10)
    print("without:", calls(60), flush=True)
    watch = Watch(database, day)
    print("beside the purge:", calls(150), flush=True)
    while watch.dropped is None and node.process.poll() is None:
        print("beside what follows it:", calls(60), flush=True)
    if watch.gone is None:
        sys.exit("the partition was not dropped")
    print(f"steps gone {watch.gone - watch.run_began:.2f} s after the run began, tables {watch.dropped - watch.gone:.0f} s "
          f"later", flush=True)


if __name__ == "__main__":
    main()
