#!/usr/bin/env python3
"""The processor time of a recorded call of two builds of the gateway, in pairs of rounds in one run.

    recording.py BEFORE NOW KIT [--pairs 8] [--seconds 8]

BEFORE, NOW: binaries; KIT: the folder of `upstream` and `pload` (bench/perf/perfkit). Each gateway has a SQLite database
of its own. A round is a closed loop of 32 connections with chat completions of one gateway; the other one is idle. The
third column has calls of NOW with a user, a session and two tags in their headers. Standard library; loopback only.
"""
import argparse
import contextlib
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

BENCH = pathlib.Path(__file__).resolve().parent.parent
sys.path += [str(BENCH / "fleet"), str(BENCH / "perf")]
from chat_load import ChatLoad, capitals  # noqa: E402
from fleet import EMAIL, PASSWORD, Node, free_port  # noqa: E402

TRACES = 5_000
ATTRIBUTES = ["X-Sluice-User: user-7", "X-Sluice-Session: session-7", "X-Sluice-Tags: team=search,stage=test"]


class Build:
    """A gateway of one build, and the calls to it."""

    def __init__(self, number, binary, kit, folder, upstream, stack):
        folder = pathlib.Path(folder, str(number))
        folder.mkdir()
        self.node = Node(number, os.path.abspath(binary), folder, {})
        stack.callback(self.node.stop)
        self.node.start()
        account = (EMAIL, PASSWORD)
        self.load = ChatLoad(kit, folder, self.node.base, account, upstream, TRACES, capitals())

    def round_of(self, seconds, headers=()):
        """Microseconds of processor time for a call."""
        return self.load.run(self.node.process.pid, self.node.base, seconds, headers)[0]


def measure(before, now, pairs, seconds):
    kinds = {"before": lambda: before.round_of(seconds), "now": lambda: now.round_of(seconds),
             "attributed": lambda: now.round_of(seconds, ATTRIBUTES)}
    for build in (before, now):
        build.round_of(3)
    ratios = {"now": [], "attributed": []}
    for pair in range(pairs):
        order = list(kinds)[:: 1 if pair % 2 == 0 else -1]
        took = {kind: kinds[kind]() for kind in order}
        for kind, found in ratios.items():
            found.append(took[kind] / took["before"])
        print(f"pair {pair}: " + ", ".join(f"{kind} {took[kind]:.1f} us" for kind in kinds), flush=True)
    for kind, found in ratios.items():
        print(f"{kind} / before: median {statistics.median(found):.3f} ({min(found):.3f} to {max(found):.3f})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("before", "now", "kit"):
        parser.add_argument(name)
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=8)
    args = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        upstream = f"127.0.0.1:{free_port()}"
        provider = subprocess.Popen([f"{args.kit}/upstream"], env={**os.environ, "LISTEN": upstream})
        stack.callback(provider.wait)
        stack.callback(provider.kill)
        builds = [Build(number, binary, args.kit, folder, upstream, stack)
                  for number, binary in enumerate((args.before, args.now))]
        measure(*builds, args.pairs, args.seconds)


if __name__ == "__main__":
    main()
