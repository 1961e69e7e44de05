"""Gateways that count as one, on a database and a Redis of their own. Standard library of Python, `psql`, `redis-cli` and
`redis-server`; loopback only."""
import http.client
import os
import pathlib
import random
import secrets
import socket
import subprocess
import sys
import time
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "evidence"))
from gateway import Gateway  # noqa: E402

EMAIL, PASSWORD = "owner@bench.invalid", "bench-owner-password"


def free_port():
    """A port below those that Linux gives to outgoing connections: a gateway that was killed finds its own free again."""
    while True:
        port = random.randrange(20_000, 29_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError(f"{command[0]}: {done.stderr.strip()[-300:]}")
    return done.stdout.strip()


class Database:
    """A database that is made at a PostgreSQL, and dropped at the end of a `with`."""

    def __init__(self, server):
        self.server, self.name = server, f"sluice_bench_{os.getpid()}"
        self.url = urllib.parse.urlsplit(server)._replace(path="/" + self.name).geturl()

    def __enter__(self):
        psql(self.server, f"CREATE DATABASE {self.name}")
        return self

    def __exit__(self, *_):
        psql(self.server, f"DROP DATABASE {self.name} WITH (FORCE)")

    def query(self, statement):
        """The rows of an answer, as lists of texts."""
        return [line.split("|") for line in psql(self.url, statement).splitlines()]

    def value(self, statement):
        return self.query(statement)[0][0]


def psql(url, statement):
    return run("psql", "--no-psqlrc", "-qAt", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", statement)


class Redis:
    """A Redis of its own on a free port, or the empty one of a URL."""

    def __init__(self, folder, url=None):
        self.folder, self.process, self.url = folder, None, url

    def __enter__(self):
        if self.url is None:
            port = free_port()
            self.url = f"redis://127.0.0.1:{port}"
            self.process = subprocess.Popen(
                ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", self.folder, "--save", "",
                 "--appendonly", "yes", "--maxmemory-policy", "noeviction"], stdout=subprocess.DEVNULL)
            for _ in range(100):
                try:
                    self.command("PING")
                    break
                except RuntimeError:
                    time.sleep(0.1)
        if self.command("DBSIZE") != "0":
            raise RuntimeError("the Redis is not empty: give it one of its own")
        return self

    def __exit__(self, *_):
        if self.process is None:
            # All keys here are ours: it was empty.
            self.command("FLUSHDB")
        else:
            self.process.terminate()
            self.process.wait(30)

    def command(self, *words):
        return run("redis-cli", "-e", "-u", self.url, *words)

    def reservations(self):
        """The reservations of all projects, and the keys for which money is still set aside."""
        bases = [key.removesuffix(":r") for key in self.command("--scan", "--pattern", "sluice:*:{p*}:r").splitlines()]
        count = sum(int(self.command("HLEN", base + ":r")) for base in bases)
        sums = [text for base in bases for text in self.command("HVALS", base + ":o").splitlines()]
        return count, sum(text not in ("", "0") for text in sums)

    def cpu_seconds(self):
        fields = dict(line.split(":") for line in self.command("INFO", "cpu").splitlines() if ":" in line)
        return float(fields["used_cpu_user"]) + float(fields["used_cpu_sys"])


class Node:
    """A gateway, which may be killed and started again at its port."""

    def __init__(self, number, binary, folder, environment):
        self.number, self.binary, self.process = number, binary, None
        self.address = f"127.0.0.1:{free_port()}"
        self.base = f"http://{self.address}"
        self.log = pathlib.Path(folder) / f"node-{number}.log"
        self.environment = {"PATH": os.environ["PATH"], "SLUICE_LISTEN": self.address, "SLUICE_LOG": "warn",
                            "SLUICE_DATA_DIR": f"{folder}/node-{number}", "SLUICE_METRICS_LISTEN": "off",
                            "SLUICE_OWNER_EMAIL": EMAIL, "SLUICE_OWNER_PASSWORD": PASSWORD,
                            "SLUICE_EGRESS_ALLOW": "127.0.0.1", "SLUICE_SHUTDOWN_DELAY": "0", **environment}

    def start(self):
        """Starts it, and gives the seconds until it is ready."""
        began = time.monotonic()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([self.binary, "serve"], env=self.environment, stdout=log, stderr=log)
        while time.monotonic() < began + 60:
            if self.process.poll() is not None:
                break
            if self.is_ready():
                return time.monotonic() - began
            time.sleep(0.1)
        raise RuntimeError(f"node {self.number} is not ready:\n{self.log.read_text()[-2000:]}")

    def is_ready(self):
        connection = http.client.HTTPConnection(self.address, timeout=10)
        try:
            connection.request("GET", "/ready")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.kill()


class Fleet:
    """Some gateways on a database and a Redis; they are stopped at the end of a `with`."""

    def __init__(self, count, binary, folder, database, redis):
        environment = {"SLUICE_DATABASE_URL": database.url, "SLUICE_REDIS_URL": redis.url,
                       "SLUICE_MASTER_KEY": secrets.token_hex(32)}
        self.nodes = [Node(number, os.path.abspath(binary), folder, environment) for number in range(count)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for node in self.nodes:
            node.stop()

    def run(self, count):
        """Has the first `count` nodes run, and no other."""
        for node in self.nodes[count:]:
            node.stop()
        for node in self.nodes[:count]:
            if node.process is None or node.process.poll() is not None:
                node.start()

    def owner(self):
        return Gateway(self.nodes[0].base).sign_in(EMAIL, PASSWORD)
