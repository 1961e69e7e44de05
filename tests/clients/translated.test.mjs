// What users of the openai package for JavaScript read when another provider answers: a translation.
// The simulator plays the providers.

import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import OpenAI from "openai";

const { SLUICE_BASE_URL: base, SLUICE_KEY: key, SLUICE_TEST_SIM: sim } = process.env;
const names = ["openai", "anthropic", "gemini", "bedrock", "azure", "internal"];
const said = "Grüße 🙂, said the dot.";
const schema = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};

async function post(url, body, headers = {}) {
  const answer = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
  return answer.json();
}

/** What a provider answers next, in pieces that split characters and events. */
async function script(provider, ...answers) {
  await post(`${sim}/_script`, { clear: true });
  answers = answers.map((answer) => ({ split_bytes: 7, ...answer }));
  await post(`${sim}/_script`, { scripts: [{ provider, answers }] });
}

describe("translated streams", { skip: !sim }, () => {
  let client;
  before(async () => {
    const { id } = await post(`${base}/api/v1/traces`, {}, { authorization: `Bearer ${key}` });
    const defaultHeaders = { "X-Trace-Id": id };
    client = new OpenAI({ baseURL: `${base}/api/v1`, apiKey: key, defaultHeaders });
    await post(`${sim}/_reset`, {});
  });

  const rounds = [
    { tool_calls: [{ name: "weather", arguments: { city: "Rome é" } }], signatures: true },
    { text: said },
  ];
  for (const model of names) {
    test(`chat.completions, ${model}`, async () => {
      const tools = [{ type: "function", function: { name: "weather", parameters: schema } }];
      const messages = [{ role: "user", content: "Compare." }];
      await script(model, ...rounds);
      const stream = client.chat.completions.stream({ model, messages, tools });
      const { message } = (await stream.finalChatCompletion()).choices[0];
      const [call] = message.tool_calls;
      assert.deepEqual(JSON.parse(call.function.arguments), { city: "Rome é" });
      messages.push(message, { role: "tool", tool_call_id: call.id, content: "18 C" });
      let text = "";
      const last = await client.chat.completions.create({ model, messages, tools, stream: true });
      for await (const chunk of last) text += chunk.choices[0]?.delta.content ?? "";
      assert.equal(text, said);
    });

    test(`responses, ${model}`, async () => {
      const tools = [{ type: "function", name: "weather", parameters: schema, strict: true }];
      const input = [{ role: "user", content: "Compare." }];
      await script(model, ...rounds);
      const { output } = await client.responses.stream({ model, input, tools }).finalResponse();
      const [call] = output.filter((item) => item.type === "function_call");
      assert.deepEqual(JSON.parse(call.arguments), { city: "Rome é" });
      const result = { type: "function_call_output", call_id: call.call_id, output: "18 C" };
      const next = { model, input: [...input, ...output, result], tools };
      const last = await client.responses.stream(next).finalResponse();
      assert.equal(last.output_text, said);
    });
  }

  test("the vendors find no fault", async () => {
    const { violations } = await (await fetch(`${sim}/_violations`)).json();
    assert.deepEqual(violations, []);
  });
});
