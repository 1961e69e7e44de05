#!/usr/bin/env python3
"""Start-up, idle memory, and the reads that a dashboard makes. Standard library only.

    extras.py PATH_TO_SLUICE [TRACES]

Fills a SQLite database with so many traces (1,000,000 by default), and one trace with 100 steps, and prints medians.
"""
import http.client
import json
import os
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

BIN = os.path.abspath(sys.argv[1])
TRACES = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
KEY = "ak_00000000000000aa.0123456789abcdef0123456789abcdef0123456789a"
PORT = 9477


def start(folder):
    """Starts the gateway; returns the process and the seconds to its first answered request."""
    env = {**os.environ, "SLUICE_LISTEN": f"127.0.0.1:{PORT}", "SLUICE_DATA_DIR": folder, "SLUICE_BOOTSTRAP_KEY": KEY,
           "SLUICE_OWNER_PASSWORD": "bench-owner-password", "SLUICE_LOG": "error", "SLUICE_METRICS_LISTEN": "off"}
    began = time.perf_counter()
    process = subprocess.Popen([BIN], env=env, stdout=subprocess.DEVNULL)
    while True:
        try:
            status, _ = call("GET", "/api/v1/sdk/config")
            if status == 200:
                return process, time.perf_counter() - began
        except OSError:
            time.sleep(0.002)


def stop(process):
    process.send_signal(signal.SIGTERM)
    process.wait(40)


def call(method, path, body=None, parse=True):
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=20)
    headers = {"authorization": "Bearer " + KEY, "content-type": "application/json"}
    connection.request(method, path, json.dumps(body) if body is not None else None, headers)
    response = connection.getresponse()
    read = response.read()
    return response.status, json.loads(read or b"null") if parse else None


def timed(path, times=15):
    """Median milliseconds of a read, the first left out."""
    took = []
    for _ in range(times + 1):
        began = time.perf_counter()
        status, _ = call("GET", path, parse=False)
        took.append((time.perf_counter() - began) * 1000)
        assert status == 200, (path, status)
    return statistics.median(took[1:])


def memory(pid):
    lines = open(f"/proc/{pid}/status").read().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def session():
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=20)
    connection.request("POST", "/api/v1/session", json.dumps({"email": "owner@localhost", "password": "bench-owner-password"}),
                       {"content-type": "application/json"})
    cookie = connection.getresponse().getheader("set-cookie").split(";")[0]
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=20)
    limits = {"project": {"settings": {"limits": {"requests_per_hour": None, "loop_requests": None}}}}
    connection.request("PATCH", "/api/v1/projects/1", json.dumps(limits), {"content-type": "application/json", "cookie": cookie})
    assert connection.getresponse().status == 200


def fill(folder):
    db = sqlite3.connect(os.path.join(folder, "sluice.db"))
    now = int(time.time() * 1000)
    rows = ((((now - 10**7 + n) << 80) | (7 << 76) | (2 << 62) | n).to_bytes(16, "big") for n in range(TRACES))
    db.executemany("INSERT INTO traces (id, project_id, status, created_at) VALUES (?, 1, 'pending', ?)",
                   ((row, now * 1000) for row in rows))
    db.commit()
    db.close()


folder = tempfile.mkdtemp()
process, _ = start(folder)
session()
trace = call("POST", "/api/v1/traces", {})[1]["id"]
for n in range(100):
    call("POST", "/api/v1/executions", {"trace_id": trace, "input": f"Question {n}: what should the team do next?"})
stop(process)
fill(folder)
starts = []
for _ in range(5):
    process, seconds = start(folder)
    starts.append(seconds * 1000)
    time.sleep(3)
    idle = memory(process.pid)
    stop(process)
process, _ = start(folder)
print(f"start to first answered request, ms (median of 5): {statistics.median(starts):.0f}")
print(f"idle memory, MiB: {idle:.1f}")
print(f"GET /traces/:id of 100 steps, ms: {timed('/api/v1/traces/' + trace):.2f}")
print(f"GET /traces page 1 of {TRACES:,}, ms: {timed('/api/v1/traces'):.2f}")
print(f"GET /traces page 10,000, ms: {timed('/api/v1/traces?page=10000'):.2f}")
print(f"GET /stats, ms: {timed('/api/v1/stats'):.2f}")
stop(process)
