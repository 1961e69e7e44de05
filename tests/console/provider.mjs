// A provider of models in OpenAI's format, which answers shortly, or with a megabyte of markup if it is asked to.
import { once } from "node:events";
import { createServer } from "node:http";
import { MARKUP } from "./gateway.mjs";

const PIECE = 1024;

/** Starts it. `keys` are the credentials of the calls so far. */
export async function startProvider() {
  const keys = [];
  const server = createServer(async (request, response) => {
    const pieces = [];
    for await (const piece of request) pieces.push(piece);
    keys.push(request.headers.authorization);
    const { messages, model, stream } = JSON.parse(Buffer.concat(pieces).toString());
    const isLong = JSON.stringify(messages.at(-1)).includes("megabyte");
    const line = `${MARKUP} of a long answer\n`;
    const text = isLong ? line.repeat(Math.ceil((1 << 20) / line.length)) : "Hello from the provider.";
    const usage = { prompt_tokens: 3, completion_tokens: Math.ceil(text.length / 4), total_tokens: 3 + Math.ceil(text.length / 4) };
    const reply = (object, choice, more) => JSON.stringify({
      id: "reply", object, created: 1, model, choices: [{ index: 0, ...choice }], ...more,
    });
    if (!stream) {
      response.setHeader("content-type", "application/json");
      response.end(reply("chat.completion", { message: { role: "assistant", content: text }, finish_reason: "stop" }, { usage }));
      return;
    }
    response.setHeader("content-type", "text/event-stream");
    const chunk = (delta, reason, more) =>
      response.write(`data: ${reply("chat.completion.chunk", { delta, finish_reason: reason }, more)}\n\n`);
    for (let at = 0; at < text.length; at += PIECE) chunk({ content: text.slice(at, at + PIECE) }, null);
    chunk({}, "stop", { usage });
    response.end("data: [DONE]\n\n");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://localhost:${server.address().port}/v1`, keys,
    stop: () => new Promise((resolve) => { server.close(resolve); server.closeAllConnections(); }),
  };
}
