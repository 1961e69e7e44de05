#!/usr/bin/env python3
"""A provider that answers chat completions after a time, whole or as a stream of 20 words.

    upstream.py PORT [SECONDS]        until it is interrupted; SECONDS: the time of an answer, 1 by default

Standard library; loopback only. The first segment of a path is a name: calls are counted by it, so that every gateway
may have a model of its own here.
"""
import asyncio
import collections
import json
import sys
import threading

WORDS = "This answer takes its time so that a gateway or a database may die while it is on its way.".split()
WORDS += ["Done."]


class Upstream:
    """Serves in a thread of its own. `seconds` is asked for the time of each answer."""

    def __init__(self, seconds, port=0):
        self.seconds = seconds
        self.open = collections.Counter()
        self.is_listening = threading.Event()
        self.port = port
        threading.Thread(target=lambda: asyncio.run(self.serve()), daemon=True).start()
        if not self.is_listening.wait(10):
            raise RuntimeError(f"the upstream does not listen on port {port}")

    async def serve(self):
        server = await asyncio.start_server(self.connection, "127.0.0.1", self.port, limit=1 << 20, backlog=512)
        self.port = server.sockets[0].getsockname()[1]
        self.is_listening.set()
        await server.serve_forever()

    async def connection(self, reader, writer):
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                lines = head.split("\r\n")
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
                body = json.loads(await reader.readexactly(int(headers.get("content-length", "0"))) or b"{}")
                name = lines[0].split(" ")[1].split("/")[1]
                self.open[name] += 1
                try:
                    await self.answer(writer, body)
                finally:
                    self.open[name] -= 1
        except (OSError, asyncio.IncompleteReadError):
            # The gateway has gone.
            pass
        finally:
            writer.close()

    async def answer(self, writer, body):
        usage = {"prompt_tokens": 20, "completion_tokens": len(WORDS), "total_tokens": 20 + len(WORDS)}
        common = {"id": "chatcmpl-1", "created": 1, "model": body.get("model")}
        if not body.get("stream"):
            await asyncio.sleep(self.seconds())
            message = {"role": "assistant", "content": " ".join(WORDS)}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            whole = {**common, "object": "chat.completion", "choices": [choice], "usage": usage}
            data = json.dumps(whole).encode()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(data) + data)
            await writer.drain()
            return
        pause = self.seconds() / len(WORDS)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        for number, word in enumerate(WORDS):
            await asyncio.sleep(pause)
            end = "stop" if number == len(WORDS) - 1 else None
            choice = {"index": 0, "delta": {"content": word if number == 0 else " " + word}, "finish_reason": end}
            await self.event(writer, {**common, "object": "chat.completion.chunk", "choices": [choice]})
        await self.event(writer, {**common, "object": "chat.completion.chunk", "choices": [], "usage": usage})
        await self.chunk(writer, b"data: [DONE]\n\n")
        await self.chunk(writer, b"")

    async def event(self, writer, value):
        await self.chunk(writer, b"data: " + json.dumps(value).encode() + b"\n\n")

    async def chunk(self, writer, data):
        writer.write(b"%x\r\n%s\r\n" % (len(data), data))
        await writer.drain()


if __name__ == "__main__":
    answer_time = float(sys.argv[2]) if len(sys.argv) > 2 else 1.0
    upstream = Upstream(lambda: answer_time, int(sys.argv[1]))
    print(f"answers after {answer_time} s at http://127.0.0.1:{upstream.port}/v1", flush=True)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        pass
