"""The load that the profile is taken under: load.py SLUICE KIT

SLUICE is a gateway's binary, KIT the folder of the programs of bench/perf/perfkit. Calls of every endpoint
that carries conversations, whole and streamed, many at once and few, over SQLite."""

import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
OWNER, PASSWORD = "owner@load.invalid", "load-owner-password"
SYSTEM = "You help the people of a small publishing house. Be exact, and say where you are not sure."
SAID = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "@TEXT@"}]
# The sentences of prompts: none of them is in the measuring stick (bench/perf), which is to show what
# the profile is worth.
LINES = [
    "Please turn these notes into a short letter to the printers.",
    "The second edition needs a new index; which entries would you drop?",
    "Bitte fasse den folgenden Absatz in zwei Sätzen zusammen.",
    "Le chapitre trois est trop long : que faut-il couper ?",
    "¿Puedes comparar las dos ofertas y decir cuál conviene más?",
    "Prove that the sum of two odd numbers is even, then give an example.",
    "def total(orders):\n    return sum(order['price'] * order['count'] for order in orders)",
    '{"title": "On rivers", "pages": 312, "year": 1998, "tags": ["maps", "travel"]}',
    "| month | sold | returned |\n|---|---|---|\n| May | 1,204 | 37 |\n| June | 987 | 41 |",
    "Our meeting moved from Tuesday to 17 March at 10:30, room 4.",
    "I have waited for nine days and nobody has answered. This is not how one treats readers!",
    "1. Read the draft. 2. Mark every passive verb. 3. Suggest a plainer one for each.",
    "Why does this query scan the whole table?  SELECT * FROM books WHERE lower(title) = 'emma';",
    "Erkläre den Unterschied zwischen Lektorat und Korrektorat für Einsteiger.",
    "The parcel left on the 3rd, weighs 2.4 kg and costs 11.90 to send.",
    "Which of these three covers would a bookseller put in the window, and why?",
]
CHAT = {"model": "mock", "messages": SAID, "max_tokens": 64}
MESSAGES = {"model": "claude-mock", "system": SYSTEM, "messages": SAID[1:], "max_tokens": 64}
STREAM = {"stream": True}
# Path, body, number of calls. Below a vendor's root a call of its format passes as it came.
ENDPOINTS = [
    ("/api/v1/chat/completions", CHAT | {"temperature": 0}, 6000),
    ("/api/v1/executions", {"input": "@TEXT@"}, 6000),
    ("/api/v1/chat/completions", CHAT | STREAM, 2500),
    ("/api/v1/messages", MESSAGES | {"model": "mock"}, 1500),
    ("/api/v1/responses", {"model": "mock", "input": "@TEXT@"}, 1500),
    ("/anthropic/v1/messages", MESSAGES, 2500),
    ("/anthropic/v1/messages", MESSAGES | STREAM, 1500),
    ("/openai/v1/chat/completions", CHAT, 2500),
    ("/openai/v1/chat/completions", CHAT | STREAM, 1500),
]


def prompts():
    """A thousand prompts, the same each time: most of some hundred bytes, a few of 8 KB."""
    chance = random.Random(11)
    for number in range(1000):
        size = chance.choice([200, 400, 400, 700, 700, 1500, 3000, 8000])
        said = [f"Note {number}."]
        while sum(map(len, said)) < size:
            said.append(f"{chance.choice(LINES)} ({chance.randrange(1000)})")
        yield "\n".join(said)


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


STARTED = []


def start(command, port, **env):
    process = subprocess.Popen(command, env=os.environ | env, stdout=subprocess.DEVNULL)
    STARTED.append(process)
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise SystemExit(f"load.py: {command} does not answer")


def main(sluice, kit):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        upstream_port, port = free_port(), free_port()
        try:
            start([f"{kit}/upstream"], upstream_port, LISTEN=f"127.0.0.1:{upstream_port}")
            start(
                [sluice, "serve"],
                port,
                SLUICE_LISTEN=f"127.0.0.1:{port}",
                SLUICE_DATA_DIR=str(folder / "data"),
                SLUICE_OWNER_EMAIL=OWNER,
                SLUICE_OWNER_PASSWORD=PASSWORD,
                SLUICE_LOG="error",
                SLUICE_METRICS_LISTEN="off",
                SLUICE_EGRESS_ALLOW="127.0.0.1",
            )
            base = f"http://127.0.0.1:{port}"
            setup = [ROOT / "bench/perf/sluice_setup.py", base, OWNER, PASSWORD]
            setup = [sys.executable, *setup, f"http://127.0.0.1:{upstream_port}/v1"]
            made = json.loads(subprocess.run(setup, capture_output=True, check=True).stdout)
            texts, ids, body = folder / "texts", folder / "ids", folder / "body"
            texts.write_text("".join(json.dumps(text)[1:-1] + "\n" for text in prompts()))
            ids.write_text("".join(f"{trace}\n" for trace in made["ids"]))
            headers = [f"{name}: {value}" for name, value in made["headers"].items()]
            for path, ask, count in ENDPOINTS:
                given = list(headers)
                if path.endswith(("completions", "executions")) and path.startswith("/api/"):
                    ask = ask | made["extra_body"]
                else:
                    given.append(f"x-trace-id: {made['ids'][0]}")
                body.write_text(json.dumps(ask))
                for connections in (32, 4):
                    load = [f"{kit}/pload", "--url", f"{base}{path}"]
                    load += ["--body", body, "--texts", texts, "--ids", ids, "--secs", "120"]
                    load += ["--conns", str(connections), "--requests", str(count)]
                    load += [word for header in given for word in ("-H", header)]
                    report = subprocess.run(load, capture_output=True, check=True, text=True)
                    report = json.loads(report.stdout)
                    print(f"{path}: {report['codes']}")
                    if list(report["codes"]) != ["200"]:
                        raise SystemExit(f"load.py: {report['sample']}")
        finally:
            # The gateway writes its profile when it ends.
            for process in STARTED:
                process.terminate()
                process.wait()


main(*sys.argv[1:])
