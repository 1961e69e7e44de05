#!/usr/bin/env python3
"""The processor time of a recorded call of two builds of the gateway, in pairs of rounds in one run.

    recording.py BEFORE NOW KIT [--pairs 8] [--seconds 8]

BEFORE, NOW: binaries; KIT: the folder of `upstream` and `pload` (bench/perf/perfkit). Each gateway has a SQLite database
of its own. A round is a closed loop of 32 connections with chat completions of one gateway; the other one is idle. The
third column has calls of NOW with a user, a session and two tags in their headers. Standard library; loopback only.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

PERF = pathlib.Path(__file__).resolve().parent.parent / "perf"
EMAIL, PASSWORD, TRACES = "owner@bench.invalid", "bench-owner-password", 5_000
UPSTREAM = "127.0.0.1:9470"
ATTRIBUTES = ["X-Sluice-User: user-7", "X-Sluice-Session: session-7", "X-Sluice-Tags: team=search,stage=test"]


def cpu(pid):
    """User and system time of a process in microseconds."""
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 1_000_000 / os.sysconf("SC_CLK_TCK")


class Build:
    """A gateway of one build, and the calls to it."""

    def __init__(self, binary, address, folder):
        folder.mkdir()
        self.address, self.folder = address, folder
        environment = {"PATH": os.environ["PATH"], "SLUICE_LISTEN": address, "SLUICE_DATA_DIR": str(folder / "data"),
                       "SLUICE_OWNER_EMAIL": EMAIL, "SLUICE_OWNER_PASSWORD": PASSWORD, "SLUICE_LOG": "error",
                       "SLUICE_METRICS_LISTEN": "off", "SLUICE_EGRESS_ALLOW": "127.0.0.1"}
        self.process = subprocess.Popen([binary, "serve"], env=environment, stdout=subprocess.DEVNULL)

    def set_up(self, kit):
        for _ in range(300):
            try:
                urllib.request.urlopen(f"http://{self.address}/ready", timeout=1).read()
                break
            except OSError:
                time.sleep(0.1)
        else:
            sys.exit("the gateway is not ready")
        setup = json.loads(subprocess.check_output(
            [sys.executable, PERF / "sluice_setup.py", f"http://{self.address}", EMAIL, PASSWORD,
             f"http://{UPSTREAM}/v1", str(TRACES)]))
        message = [{"role": "user", "content": "@TEXT@"}]
        body = {"model": "mock", "max_tokens": 64, "messages": message, **setup["extra_body"]}
        texts = "\n".join(f"What is the capital of country number {n}?" for n in range(997))
        for name, text in {"body": json.dumps(body), "ids": "\n".join(setup["ids"]), "texts": texts}.items():
            (self.folder / name).write_text(text)
        self.command = [f"{kit}/pload", "--url", f"http://{self.address}/api/v1/chat/completions", "--conns", "32"]
        for name in ("body", "ids", "texts"):
            self.command += [f"--{name}", str(self.folder / name)]
        for name, value in setup["headers"].items():
            self.command += ["-H", f"{name}: {value}"]

    def round_of(self, seconds, headers=()):
        """Microseconds of processor time for a call."""
        began = cpu(self.process.pid)
        more = [part for header in headers for part in ("-H", header)]
        answered = json.loads(subprocess.check_output([*self.command, *more, "--secs", str(seconds)]))
        used = cpu(self.process.pid) - began
        if answered["errors"] or not answered["ok"]:
            sys.exit(f"calls failed: {answered}")
        return used / answered["ok"]


def main():
    parser = argparse.ArgumentParser()
    for name in ("before", "now", "kit"):
        parser.add_argument(name)
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=8)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        upstream = subprocess.Popen([f"{args.kit}/upstream"], env={**os.environ, "LISTEN": UPSTREAM})
        builds = []
        try:
            for number, binary in enumerate((args.before, args.now)):
                builds.append(Build(binary, f"127.0.0.1:{9471 + number}", folder / str(number)))
            for build in builds:
                build.set_up(args.kit)
            measure(*builds, args.pairs, args.seconds)
        finally:
            for build in builds:
                build.process.terminate()
                build.process.wait(60)
            upstream.kill()


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


if __name__ == "__main__":
    main()
