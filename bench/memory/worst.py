#!/usr/bin/env python3
"""Searches for the bodies that take most memory, and prints the worst ten.

    bench/memory/worst.py target/dist/sluice [--megabytes 10] [--only NAME] [--skip-search]

Starts the gateway in a folder of its own, on loopback. Sends every shape of body below to every
endpoint that takes one, one at a time, and reads from /proc how far the memory of the process rose
above what it was at rest: `bytes a byte` is that rise by the length of the body. Then sends sixteen
of the worst at once, reads what the process holds a minute later, opens the detail of a trace by
readers who take nothing, and has a provider of its own answer with hostile bodies. Needs nothing but
Python's standard library.
"""

import argparse
import collections
import http.client
import json
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import threading
import time

KEY = "ak_00000000000000aa." + "k" * 43
PASSWORD = "correct horse battery"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def fill(size, unit, joint=","):
    """As many units as fit."""
    count = max(1, size // (len(unit) + len(joint)))
    return joint.join([unit] * count)


def keys(size, value):
    """An object of distinct short names."""
    parts, length, index = [], 0, 0
    while length < size:
        part = f'"{index:x}":{value}'
        parts.append(part)
        length += len(part) + 1
        index += 1
    return "{" + ",".join(parts) + "}"


# JSON values of about a size, by name.
SHAPES = {
    "empty strings": lambda n: "[" + fill(n, '""') + "]",
    "zeroes": lambda n: "[" + fill(n, "0") + "]",
    "nulls": lambda n: "[" + fill(n, "null") + "]",
    "empty objects": lambda n: "[" + fill(n, "{}") + "]",
    "empty lists": lambda n: "[" + fill(n, "[]") + "]",
    "objects of one": lambda n: "[" + fill(n, '{"a":0}') + "]",
    "lists of one": lambda n: "[" + fill(n, "[0]") + "]",
    "strings of one": lambda n: "[" + fill(n, '"a"') + "]",
    "long numbers": lambda n: "[" + fill(n, "1234567890123456") + "]",
    "distinct names": lambda n: keys(n, "0"),
    "distinct names of objects": lambda n: keys(n, "{}"),
    "deep lists": lambda n: "[" + fill(n, "[" * 60 + "]" * 60) + "]",
    "deep objects": lambda n: "[" + fill(n, '{"a":' * 60 + "0" + "}" * 60) + "]",
    "parts": lambda n: "[" + fill(n, '{"type":"text","text":"a"}') + "]",
    "parts of 40 bytes": lambda n: "[" + fill(n, '{"type":"text","text":"%s"}' % ("word " * 8)) + "]",
    "strings of 40 bytes": lambda n: "[" + fill(n, '"%s"' % ("word " * 8)) + "]",
    "strings of 16 bytes": lambda n: "[" + fill(n, '"%s"' % ("word" * 4)) + "]",
    "text": lambda n: '"' + fill(n, "An ordinary sentence of words", " ") + '"',
    "letters": lambda n: '"' + fill(n, "a", " ") + '"',
    "one word": lambda n: '"' + "a" * n + '"',
    "escapes": lambda n: '"' + fill(n, "\\n", "") + '"',
    "unicode escapes": lambda n: '"' + fill(n, "\\u00e9", "") + '"',
    "Chinese": lambda n: '"' + "中文" * (n // 6) + '"',
    "marks": lambda n: '"' + "e\u0301" * (n // 3) + '"',
    "mail addresses": lambda n: '"' + fill(n, "a.b@example.org", " ") + '"',
    "digits": lambda n: '"' + fill(n, "4111 1111 1111 1111", " ") + '"',
    "keys": lambda n: '"' + fill(n, "$api_key=@Bearer", " ") + '"',
    "base64": lambda n: '"' + fill(n, "QWxhZGRpbjpvcGVuIHNlc2FtZQ", "") + '"',
    "hexadecimal": lambda n: '"' + fill(n, "deadbeef", "") + '"',
    "JSON in a string": lambda n: '"' + fill(n, '{\\"a\\":0}', ",") + '"',
    "dense JSON in a string": lambda n: '"{\\"a\\":[' + fill(n, "[]") + ']}"',
    "dense list in a string": lambda n: '"[' + fill(n, "[]") + ']"',
    "lines": lambda n: '"' + fill(n, "a: b", "\\n") + '"',
    "image": lambda n: '"data:image/png;base64,' + "iVBORw0KGgo" * (n // 11) + '"',
    "text file": lambda n: '"data:text/plain;base64,' + "aGVsbG8gd29ybGQg" * (n // 16) + '"',
}

# The places of a value: path, body with the value in the place of VALUE, and which shapes fit.
ANY, TEXT, LIST, OBJECT = "any", "text", "list", "object"
DEEP = "[" * 200 + "]" * 200
CALL = '{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":VALUE}}]}'
PLACES = {
    "chat: behind an ignored deep field": ("/chat/completions", '{"trace_id":"TRACE","stream_options":{"x":' + DEEP + '},"messages":[{"role":"user","content":"hi"}],"zz":VALUE}', ANY),
    "chat: name of the parser": ("/chat/completions", '{"trace_id":"TRACE","messages":[{"role":"user","content":"hi"}],"zz":{"$serde_json::private::RawValue":VALUE}}', TEXT),
    "chat: arguments of a call": ("/chat/completions", '{"trace_id":"TRACE","messages":[{"role":"user","content":"hi"},' + CALL + ',{"role":"tool","tool_call_id":"a","content":"ok"}]}', TEXT),
    "executions: behind an ignored deep field": ("/executions", '{"junk":' + DEEP + ',"trace_id":"TRACE","input":"hi","tools":VALUE}', LIST),
    "chat: unknown field": ("/chat/completions", '{"trace_id":"TRACE","messages":[{"role":"user","content":"hi"}],"zz":VALUE}', ANY),
    "chat: content": ("/chat/completions", '{"trace_id":"TRACE","messages":[{"role":"user","content":VALUE}]}', TEXT),
    "chat: parts": ("/chat/completions", '{"trace_id":"TRACE","messages":[{"role":"user","content":VALUE}]}', LIST),
    "chat: field of a message": ("/chat/completions", '{"trace_id":"TRACE","messages":[{"role":"user","content":"hi","zz":VALUE}]}', ANY),
    "chat: tools": ("/chat/completions", '{"trace_id":"TRACE","messages":[{"role":"user","content":"hi"}],"tools":VALUE}', LIST),
    "chat: messages": ("/chat/completions", '{"trace_id":"TRACE","messages":VALUE}', LIST),
    "chat: two fields": ("/chat/completions", '{"trace_id":"TRACE","zz":VALUE,"messages":[{"role":"user","content":"hi"}]}', LIST),
    "logs: output": ("/logs", '{"trace_id":"TRACE","output":{"x":VALUE}}', ANY),
    "logs: top": ("/logs", '{"trace_id":"TRACE","output":VALUE}', OBJECT),
    "traces: metadata": ("/traces", '{"metadata":{"x":VALUE}}', ANY),
    "checks: input": ("/checks", '{"trace_id":"TRACE","input":VALUE}', TEXT),
    "checks: unknown field": ("/checks", '{"trace_id":"TRACE","input":"hi","zz":VALUE}', LIST),
    "executions: input": ("/executions", '{"trace_id":"TRACE","input":VALUE}', TEXT),
    "executions: tools": ("/executions", '{"trace_id":"TRACE","input":"hi","tools":VALUE}', LIST),
    "assistants: messages": ("/assistants", '{"trace_id":"TRACE","messages":[{"role":"user","content":VALUE}]}', ANY),
    "embeddings: input": ("/embeddings", '{"trace_id":"TRACE","model":"sandbox","input":VALUE}', ANY),
    "messages: content": ("/messages", '{"model":"sandbox","max_tokens":9,"metadata":{"trace_id":"TRACE"},"messages":[{"role":"user","content":VALUE}]}', ANY),
    "messages: unknown field": ("/messages", '{"model":"sandbox","max_tokens":9,"messages":[{"role":"user","content":"hi"}],"zz":VALUE}', LIST),
    "responses: input": ("/responses", '{"model":"sandbox","input":VALUE}', ANY),
    "responses: unknown field": ("/responses", '{"model":"sandbox","input":"hi","zz":VALUE}', LIST),
    "simulate: metadata": ("/simulate", '{"input":"hi","project_id":1,"metadata":{"x":VALUE}}', ANY),
    "simulate: input": ("/simulate", '{"input":VALUE,"project_id":1}', TEXT),
}


def fits(kind, text):
    return {ANY: True, TEXT: text[0] == '"', LIST: text[0] == "[", OBJECT: text[0] == "{"}[kind]


class Gateway:
    def __init__(self, binary):
        self.binary = binary
        self.start()

    def restart(self):
        self.stop()
        self.start()

    def start(self):
        self.folder = tempfile.TemporaryDirectory(prefix="sluice-memory-")
        self.port = free_port()
        environment = {
            "PATH": os.environ["PATH"], "SLUICE_LISTEN": f"127.0.0.1:{self.port}", "SLUICE_LOG": "warn",
            "SLUICE_DATA_DIR": self.folder.name, "SLUICE_METRICS_LISTEN": "off",
            "SLUICE_BOOTSTRAP_KEY": KEY, "SLUICE_OWNER_PASSWORD": PASSWORD, "HOME": self.folder.name,
        }
        self.process = subprocess.Popen([self.binary], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(300):
            try:
                if self.ask("GET", "/up", root=True)[0] == 200:
                    break
            except OSError:
                time.sleep(0.1)
        self.cookie = None
        status, _, headers = self.ask("POST", "/session", {"email": "owner@localhost", "password": PASSWORD})
        assert status == 200
        self.cookie = headers["set-cookie"].split(";")[0]
        limits = {"requests_per_hour": None, "loop_requests": None}
        status, body, _ = self.ask("PATCH", "/projects/1", {"project": {"settings": {"limits": limits, "auto_trace": True}}}, session=True)
        assert status == 200, body
        time.sleep(1)
        self.idle = self.memory("VmRSS")

    def ask(self, method, path, body=None, session=False, root=False, timeout=300):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        headers = {"Content-Type": "application/json"}
        if session:
            headers["Cookie"] = self.cookie
        else:
            headers["Authorization"] = f"Bearer {KEY}"
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        try:
            connection.request(method, path if root else "/api/v1" + path, body, headers)
            response = connection.getresponse()
            data = response.read()
            return response.status, data, {k.lower(): v for k, v in response.getheaders()}
        finally:
            connection.close()

    def trace(self):
        status, body, _ = self.ask("POST", "/traces", {})
        assert status == 201, body
        return json.loads(body)["id"]

    def memory(self, field):
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(rf"{field}:\s+(\d+) kB", text)[1]) * 1024

    def forget_peak(self):
        pathlib.Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def rise(self, act):
        """How far memory rises above what it was before."""
        before = self.memory("VmRSS")
        self.forget_peak()
        result = act()
        return result, self.memory("VmHWM") - before

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()


def search(gateway, size, only):
    found = []
    for place, (path, template, kind) in PLACES.items():
        if only and only not in place:
            continue
        trace = gateway.trace()
        for shape, make in SHAPES.items():
            value = make(size)
            if not fits(kind, value):
                continue
            body = template.replace("TRACE", trace).replace("VALUE", value).encode()
            # Memory that an earlier body left is taken again: a gateway that has been at rest takes it from the system.
            (status, _, _), rise = gateway.rise(lambda: gateway.ask("POST", path, body))
            found.append((rise / len(body), rise, status, place, shape))
            print(f"  {found[-1][0]:6.1f} bytes a byte, {rise / 1e6:7.1f} MB, {status}: {place}, {shape}", flush=True)
            if gateway.memory("VmRSS") > gateway.idle + 16e6:
                # Memory that the allocator keeps would hide the next rise.
                gateway.restart()
                trace = gateway.trace()
    return sorted(found, reverse=True)


def crowd(gateway, size, count=16):
    """Many bodies at once."""
    several(gateway, size, count, [
        ("chat: unknown field", "empty strings"), ("logs: output", "empty strings"), ("chat: content", "text"),
        ("chat: parts", "parts of 40 bytes"), ("chat: unknown field", "strings of 40 bytes")])
    # Too short to be refused for their proportion: what they take is counted.
    several(gateway, 16_000, 40 * count, [("chat: unknown field", "empty lists"), ("chat: arguments of a call", "dense JSON in a string")])


def several(gateway, size, count, shapes):
    trace = gateway.trace()
    statuses = []

    def one(place, shape):
        path, template, _ = PLACES[place]
        body = template.replace("TRACE", trace).replace("VALUE", SHAPES[shape](size)).encode()
        try:
            statuses.append(gateway.ask("POST", path, body)[0])
        except OSError as error:
            statuses.append(type(error).__name__)

    for place, shape in shapes:
        statuses.clear()

        def act():
            threads = [threading.Thread(target=one, args=(place, shape)) for _ in range(count)]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]

        _, rise = gateway.rise(act)
        print(f"{count} at once, {place}, {shape}: {rise / 1e6:.0f} MB, {dict(collections.Counter(map(str, statuses)))}", flush=True)


def details(gateway, readers=20, chats=30):
    """Readers of a trace with large chats who take nothing, and one who takes all."""
    trace = gateway.trace()
    text = fill(1_000_000, "An ordinary sentence of words", " ")
    for index in range(chats):
        body = {"trace_id": trace, "messages": [{"role": "user", "content": f"{index} {text}"}]}
        assert gateway.ask("POST", "/chat/completions", body)[0] == 200
    time.sleep(1)
    (_, whole, _), rise = gateway.rise(lambda: gateway.ask("GET", f"/traces/{trace}"))
    print(f"detail of {chats} chats, {len(whole) / 1e6:.0f} MB: {rise / 1e6:.0f} MB")
    time.sleep(5)
    before = gateway.memory("VmRSS")
    gateway.forget_peak()
    sockets = []
    for _ in range(readers):
        reader = socket.socket()
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.connect(("127.0.0.1", gateway.port))
        reader.sendall(f"GET /api/v1/traces/{trace} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\n\r\n".encode())
        sockets.append(reader)
    time.sleep(15)
    peak, held = gateway.memory("VmHWM") - before, gateway.memory("VmRSS") - before
    [reader.close() for reader in sockets]
    print(f"{readers} readers who take nothing: {peak / 1e6:.0f} MB at most, {held / 1e6:.0f} MB held after 15 s")


ANSWERS = {
    "whole, empty objects": (b"application/json", lambda n: b"[" + b"{}," * (n // 3) + b"{}]"),
    "whole, choices": (b"application/json", lambda n: b'{"choices":[' + b"{}," * (n // 3) + b"{}]}"),
    "whole, unknown field": (b"application/json", lambda n: b'{"choices":[{"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"zz":[' + b'"",' * (n // 3) + b'""]}'),
    "whole, calls": (b"application/json", lambda n: b'{"choices":[{"message":{"role":"assistant","tool_calls":[' + b",".join([b'{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}'] * (n // 72)) + b"]}}]}"),
    "whole, text": (b"application/json", lambda n: b'{"choices":[{"message":{"role":"assistant","content":"' + b"word " * (n // 5) + b'"},"finish_reason":"stop"}]}'),
    "stream, text": (b"text/event-stream", lambda n: b'data: {"choices":[{"index":0,"delta":{"content":"word word word "}}]}\n\n' * (n // 70)),
    "stream, empty objects": (b"text/event-stream", lambda n: (b'data: {"choices":[' + b"{}," * 2000 + b"{}]}\n\n") * (n // 6020)),
    "stream, one event": (b"text/event-stream", lambda n: b"data: {\"choices\":[" + b"{}," * (n // 3)),
    "stream, calls": (b"text/event-stream", lambda n: b"".join(b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":%d,"id":"c%d","type":"function","function":{"name":"f","arguments":"{}"}}]}}]}\n\n' % (i, i) for i in range(n // 120))),
    "stream, choices": (b"text/event-stream", lambda n: b"".join(b'data: {"choices":[{"index":%d,"delta":{"content":"a"}}]}\n\n' % i for i in range(n // 60))),
    "stream, no end of a line": (b"text/event-stream", lambda n: b"data: " + b"a" * n),
}


def answers(gateway, size):
    """A provider that answers with hostile bodies."""
    listener = socket.create_server(("127.0.0.1", 0))
    answer = {}

    def serve():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=one, args=(connection,), daemon=True).start()

    def one(connection):
        try:
            head = b""
            while b"\r\n\r\n" not in head:
                head += connection.recv(65536)
            length = int(re.search(rb"content-length: (\d+)", head, re.I)[1])
            body = head.split(b"\r\n\r\n", 1)[1]
            while len(body) < length:
                body += connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: " + answer["kind"] + b"\r\nConnection: close\r\n\r\n" + answer["body"])
        except (OSError, TypeError):
            pass
        finally:
            connection.close()

    threading.Thread(target=serve, daemon=True).start()
    base = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    model = {"name": "Hostile", "identifier": "hostile", "provider": "internal", "base_url": base, "is_public": False,
             "input_cost_per_1k": 0, "output_cost_per_1k": 0}
    status, body, _ = gateway.ask("POST", "/projects/1/models", {"model_definition": model}, session=True)
    assert status == 201, body
    found = []
    for name, (kind, make) in ANSWERS.items():
        answer["kind"], answer["body"] = kind, make(size)
        trace = gateway.trace()
        streams = kind == b"text/event-stream"
        ask = {"trace_id": trace, "model": "hostile", "stream": streams, "messages": [{"role": "user", "content": "hi"}]}

        def act():
            try:
                return gateway.ask("POST", "/chat/completions", ask)[0]
            except (OSError, http.client.HTTPException) as error:
                return type(error).__name__

        status, rise = gateway.rise(act)
        found.append((rise / size, rise, status, "answer", name))
        print(f"  {rise / size:6.1f} bytes a byte, {rise / 1e6:7.1f} MB, {status}: answer, {name}", flush=True)
        time.sleep(3)
    listener.close()
    return sorted(found, reverse=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--megabytes", type=float, default=10)
    parser.add_argument("--only", help="places whose name holds this")
    parser.add_argument("--skip-search", action="store_true")
    arguments = parser.parse_args()
    size = int(arguments.megabytes * 1_000_000) - 1000
    gateway = Gateway(arguments.binary)
    try:
        idle = gateway.idle
        print(f"at rest: {idle / 1e6:.1f} MB")
        found = [] if arguments.skip_search else search(gateway, size, arguments.only)
        if not arguments.only:
            found += answers(gateway, 22_000_000)
            crowd(gateway, size)
            details(gateway)
        print("\n| bytes a byte | MB | status | where | what |\n|---|---|---|---|---|")
        for ratio, rise, status, place, shape in sorted(found, reverse=True)[:10]:
            print(f"| {ratio:.1f} | {rise / 1e6:.0f} | {status} | {place} | {shape} |")
        time.sleep(60)
        print(f"\na minute later: {gateway.memory('VmRSS') / 1e6:.1f} MB, {gateway.memory('VmRSS') / idle:.2f} of what it was at rest")
    finally:
        gateway.stop()


if __name__ == "__main__":
    main()
