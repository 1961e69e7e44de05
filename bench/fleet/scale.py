#!/usr/bin/env python3
"""The steps per second that one PostgreSQL records for one, two and three gateways, and the bytes of a step there.

    scale.py GATEWAY KIT --postgres URL [--redis URL] [--rounds 3] [--seconds 20] [--connections 48]

GATEWAY: the binary; KIT: the folder with `pload` and `upstream` of bench/perf/perfkit. Makes a database of its own at
the PostgreSQL of the URL, which has to be on this machine (its CPU is read from /proc), and drops it at the end. Each
round runs one, two and three gateways on it, with the same number of connections to all of them together, first with
contents stored and then without. Prints medians over the rounds; the bytes of a step are those of all rounds, after a
VACUUM. Run nothing else beside it. Standard library; loopback only.
"""
import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from fleet import EMAIL, PASSWORD, Database, Fleet, Redis, free_port

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "perf"))
from chat_load import ChatLoad  # noqa: E402

MOST_NODES, TRACES = 3, 1_000
TICK = os.sysconf("SC_CLK_TCK")
SIZES = """SELECT relname, pg_table_size(oid), pg_indexes_size(oid) FROM pg_class
           WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"""


def texts():
    """Prompts of 0.5 to 8 KB, the mixture of bench/perf: no two in a row are alike."""
    sentence = "Case {0}: a customer in Lyon asks which of the offers {0} and {1} is cheaper over five years. "
    for number in range(1_024):
        size = 500 if number % 20 < 14 else 2_000 if number % 20 < 19 else 8_000
        text, part = "", number
        while len(text) < size:
            text, part = text + sentence.format(part * 7_919 % 9_973, part * 104_729 % 7_907), part + 31
        yield text[:size]


def cpu_seconds(pid):
    """The CPU of a process, of those below it, and of those of them that have ended."""
    children, spent = {}, {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                text = pathlib.Path(f"/proc/{entry}/stat").read_text()
                fields = text[text.rindex(")") + 2:].split()
                children.setdefault(int(fields[1]), []).append(int(entry))
                spent[int(entry)] = sum(int(field) for field in fields[11:15])
    total, left = 0, [pid]
    while left:
        process = left.pop()
        total += spent.get(process, 0)
        left += children.get(process, [])
    return total / TICK


def postmaster(database):
    """The process id of the server, which is the parent of every session."""
    # The session that asks ends with its answer, so the server's own file is read.
    folder = database.value("SHOW data_directory")
    return int(pathlib.Path(folder, "postmaster.pid").read_text().splitlines()[0])


class Load:
    """The kit, with a project of its own at the gateways."""

    def __init__(self, kit, folder, fleet, args, stack):
        self.connections = args.connections
        upstream = f"127.0.0.1:{free_port()}"
        provider = subprocess.Popen([f"{kit}/upstream"], env={**os.environ, "LISTEN": upstream})
        stack.callback(provider.wait)
        stack.callback(provider.terminate)
        account = (EMAIL, PASSWORD)
        self.chat = ChatLoad(kit, folder, fleet.nodes[0].base, account, upstream, TRACES, texts())

    def run(self, nodes, seconds):
        """Loads some gateways at once; the figures of each."""
        connections = max(1, self.connections // len(nodes))
        loads = [self.chat.begin(node.base, connections, seconds) for node in nodes]
        return [json.loads(load.communicate(timeout=seconds + 120)[0]) for load in loads]


def recorded(database):
    return int(database.value("SELECT count(*) FROM steps"))


def one_cell(fleet, load, database, redis, count, args):
    """The figures of a number of gateways."""
    fleet.run(count)
    nodes, server = fleet.nodes[:count], postmaster(database)
    load.run(nodes, 2)
    steps, wal = recorded(database), database.value("SELECT pg_current_wal_lsn()")
    before = cpu_seconds(server), sum(cpu_seconds(node.process.pid) for node in nodes), redis.cpu_seconds()
    read = load.run(nodes, args.seconds)
    after = cpu_seconds(server), sum(cpu_seconds(node.process.pid) for node in nodes), redis.cpu_seconds()
    errors = sum(part["errors"] for part in read)
    if errors:
        print(f"# {errors} calls failed: {[part['codes'] for part in read]} {read[0]['sample'][:200]}", file=sys.stderr)
    made = max(1, recorded(database) - steps)
    wal = int(database.value(f"SELECT pg_current_wal_lsn() - '{wal}'::pg_lsn"))
    database_cpu, nodes_cpu, redis_cpu = [(end - begin) * 1e6 / made for begin, end in zip(before, after)]
    return {"nodes": count, "steps_per_s": made / max(part["wall_s"] for part in read), "database_us": database_cpu,
            "gateway_us": nodes_cpu, "redis_us": redis_cpu, "wal_bytes": wal / made, "errors": errors,
            "p50": statistics.median(part["lat"]["p50"] for part in read),
            "p99": max(part["lat"]["p99"] for part in read)}


def sizes(database):
    """The bytes of every table and of its indexes."""
    # A VACUUM is no part of a transaction, so it has a command of its own.
    database.query("VACUUM ANALYZE")
    return {name: (int(table), int(indexes)) for name, table, indexes in database.query(SIZES)}


def print_cells(cells, rounds, connections):
    print(f"\nMedians of {rounds} rounds, {connections} connections together.\n")
    print("| contents | gateways | steps/s | PostgreSQL, CPU µs/step | gateways, CPU µs/step | Redis, CPU µs/step "
          "| WAL, bytes/step | p50, ms | p99, ms | failed |\n" + "|---" * 10 + "|")
    for (contents, count), found in cells.items():
        middle = {name: statistics.median(cell[name] for cell in found) for name in found[0]}
        figures = [f"{middle[name]:,.0f}" for name in ("steps_per_s", "database_us", "gateway_us", "redis_us", "wal_bytes")]
        figures += [f"{middle[name]:.1f}" for name in ("p50", "p99")] + [str(sum(cell["errors"] for cell in found))]
        print(f"| {contents} | {count} | " + " | ".join(figures) + " |")


def print_sizes(grown):
    """Bytes per step by table, for what was stored with and without contents."""
    print("\n| table | " + " | ".join(f"{contents}: table, bytes/step | indexes" for contents in grown) + " |")
    print("|---" * (1 + 2 * len(grown)) + "|")
    totals = {contents: [0.0, 0.0] for contents in grown}
    names = {name for parts in grown.values() for name in parts}
    largest = sorted(names, key=lambda name: -max(sum(parts.get(name, (0, 0))) for parts in grown.values()))
    for name in largest:
        figures = []
        for contents, parts in grown.items():
            pair = parts.get(name, (0, 0))
            totals[contents] = [total + part for total, part in zip(totals[contents], pair)]
            figures += [f"{part:,.1f}" for part in pair]
        if any(figure != "0.0" for figure in figures):
            print(f"| `{name}` | " + " | ".join(figures) + " |")
    print("| together | " + " | ".join(f"{part:,.0f}" for pair in totals.values() for part in pair) + " |")


def measure(args, stack):
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="sluice-scale-"))
    database = stack.enter_context(Database(args.postgres))
    redis = stack.enter_context(Redis(folder, args.redis))
    fleet = stack.enter_context(Fleet(MOST_NODES, args.gateway, folder, database, redis))
    fleet.run(1)
    load = Load(os.path.abspath(args.kit), folder, fleet, args, stack)
    owner = fleet.owner()
    project = next(found["id"] for found in owner.call("GET", "/projects") if found["name"] == "Bench")
    cells, grown = {}, {}
    for contents, is_stored in (("stored", True), ("not stored", False)):
        # A new connection: one without a request for 90 seconds is closed.
        fleet.run(1)
        owner = fleet.owner()
        owner.call("PATCH", f"/projects/{project}", {"project": {"settings": {"store_content": is_stored}}})
        before, steps = sizes(database), recorded(database)
        for number in range(args.rounds):
            for count in range(1, MOST_NODES + 1):
                cell = one_cell(fleet, load, database, redis, count, args)
                cells.setdefault((contents, count), []).append(cell)
                print(f"# round {number + 1}, contents {contents}: {json.dumps(cell)}", file=sys.stderr, flush=True)
        made = recorded(database) - steps
        grown[contents] = {name: tuple((end - begin) / made for begin, end in zip(before.get(name, (0, 0)), pair))
                           for name, pair in sizes(database).items()}
        print(f"# {made} steps were recorded, contents {contents}", file=sys.stderr)
    print_cells(cells, args.rounds, args.connections)
    print_sizes(grown)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gateway")
    parser.add_argument("kit")
    parser.add_argument("--postgres", required=True, help="a superuser of a server on this machine")
    parser.add_argument("--redis", help="an empty Redis; without it redis-server is started")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--connections", type=int, default=48)
    args = parser.parse_args()
    with contextlib.ExitStack() as stack:
        measure(args, stack)


if __name__ == "__main__":
    main()
