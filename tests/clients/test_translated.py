"""The vendors' Python packages before every kind of provider: what they read is a translation. The
simulator plays the providers, and judges with their own types what the gateway asks of them."""

import unittest

import providers
from test_clients import SCHEMA, anthropic_client, openai_client

TEXT = "Grüße 🙂, said the dot."
USAGE = {"input": 20, "output": 9, "cached": 5}
ANSWER = {"text": TEXT, "usage": USAGE}
ROUNDS = [
    {
        "parts": [
            {"text": "I look."},
            {"tool": {"name": "weather", "arguments": {"city": "Rome é"}}},
            {"tool": {"name": "weather", "arguments": {"city": "Oslo"}}},
        ],
        "signatures": True,
    },
    {"tool_calls": [{"name": "weather", "arguments": {"city": "Bern"}}], "signatures": True},
    {"text": "It is so."},
]
CITIES = [["Rome é", "Oslo"], ["Bern"]]


@unittest.skipUnless(providers.ADDRESS, "there is no simulator of the providers")
class Translated(unittest.TestCase):
    def setUp(self):
        providers.control("/_reset", {})

    def tearDown(self):
        found = providers.control("/_violations")["violations"]
        self.maxDiff = None
        self.assertEqual([one["path"] + ": " + one["message"] for one in found], [])
        self.assertEqual(providers.control("/_health")["bugs"], [])

    def answering(self, name, *answers):
        providers.script(name, *answers)
        return self.subTest(provider=name)

    def test_chat_completions(self):
        client = self.enterContext(openai_client()).chat.completions
        ask = {"messages": [{"role": "user", "content": "Hello."}]}
        for name in providers.NAMES:
            with self.answering(name, ANSWER, ANSWER):
                whole = client.create(model=name, **ask)
                self.assertEqual(whole.choices[0].message.content, TEXT)
                options = {"stream": True, "stream_options": {"include_usage": True}}
                chunks = list(client.create(model=name, **ask, **options))
                said = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
                self.assertEqual("".join(said), TEXT)
                for usage in (whole.usage, chunks[-1].usage):
                    self.assertEqual((usage.prompt_tokens, usage.completion_tokens), (20, 9))
                    self.assertEqual(usage.prompt_tokens_details.cached_tokens, 5)

    def test_rounds_of_chat_completions(self):
        client = self.enterContext(openai_client()).chat.completions
        tools = [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}]
        for name in providers.NAMES:
            with self.answering(name, *ROUNDS):
                messages = [{"role": "user", "content": "Compare."}]
                ask = {"model": name, "tools": tools, "messages": messages}
                for cities in CITIES:
                    with client.stream(**ask) as stream:
                        message = stream.get_final_completion().choices[0].message
                    calls = message.tool_calls
                    asked = [call.function.parsed_arguments or call.function.arguments for call in calls]
                    for city, arguments in zip(cities, asked, strict=True):
                        self.assertIn(city, str(arguments))
                    messages.append(message)
                    for call in calls:
                        messages.append({"role": "tool", "tool_call_id": call.id, "content": "18 C"})
                self.assertEqual(client.create(**ask).choices[0].message.content, "It is so.")

    def test_messages(self):
        client = self.enterContext(anthropic_client()).messages
        ask = {"max_tokens": 500, "messages": [{"role": "user", "content": "Hello."}]}
        for name in providers.NAMES:
            with self.answering(name, ANSWER, ANSWER):
                whole = client.create(model=name, **ask)
                with client.stream(model=name, **ask) as stream:
                    said = "".join(stream.text_stream)
                    message = stream.get_final_message()
                self.assertEqual((said, message.content[0].text), (TEXT, TEXT))
                self.assertEqual(whole.content[0].text, TEXT)
                self.assertEqual((whole.stop_reason, message.stop_reason), ("end_turn", "end_turn"))
                for usage in (whole.usage, message.usage):
                    self.assertEqual((usage.input_tokens, usage.cache_read_input_tokens), (15, 5))
                    self.assertEqual(usage.output_tokens, 9)

    def test_rounds_of_messages(self):
        client = self.enterContext(anthropic_client()).messages
        tools = [{"name": "weather", "description": "Tells.", "input_schema": SCHEMA}]
        for name in providers.NAMES:
            with self.answering(name, *ROUNDS):
                messages = [{"role": "user", "content": "Compare."}]
                ask = {"model": name, "max_tokens": 500, "tools": tools, "messages": messages}
                for cities in CITIES:
                    with client.stream(**ask) as stream:
                        message = stream.get_final_message()
                    self.assertEqual(message.stop_reason, "tool_use")
                    calls = [block for block in message.content if block.type == "tool_use"]
                    self.assertEqual([call.input for call in calls], [{"city": city} for city in cities])
                    results = [
                        {"type": "tool_result", "tool_use_id": call.id, "content": "18 C"}
                        for call in calls
                    ]
                    messages += [message.to_param(), {"role": "user", "content": results}]
                self.assertEqual(client.create(**ask).content[0].text, "It is so.")

    def test_responses(self):
        client = self.enterContext(openai_client()).responses
        for name in providers.NAMES:
            with self.answering(name, ANSWER, ANSWER):
                whole = client.create(model=name, input="Hello.")
                with client.stream(model=name, input="Hello.") as stream:
                    deltas = [e.delta for e in stream if e.type == "response.output_text.delta"]
                    streamed = stream.get_final_response()
                self.assertEqual(("".join(deltas), streamed.output_text), (TEXT, TEXT))
                self.assertEqual(whole.output_text, TEXT)
                for usage in (whole.usage, streamed.usage):
                    self.assertEqual((usage.input_tokens, usage.output_tokens), (20, 9))
                    self.assertEqual(usage.input_tokens_details.cached_tokens, 5)

    def test_rounds_of_responses(self):
        client = self.enterContext(openai_client()).responses
        tools = [{"type": "function", "name": "weather", "parameters": SCHEMA, "strict": True}]
        for name in providers.NAMES:
            with self.answering(name, *ROUNDS):
                items = [{"role": "user", "content": "Compare."}]
                ask = {"model": name, "tools": tools, "input": items}
                for cities in CITIES:
                    with client.stream(**ask) as stream:
                        output = stream.get_final_response().output
                    calls = [item for item in output if item.type == "function_call"]
                    for city, call in zip(cities, calls, strict=True):
                        self.assertIn(city, str(call.parsed_arguments or call.arguments))
                    items += output
                    for call in calls:
                        items.append(
                            {
                                "type": "function_call_output",
                                "call_id": call.call_id,
                                "output": "18 C",
                            }
                        )
                self.assertEqual(client.create(**ask).output_text, "It is so.")

    def test_failures(self):
        client = self.enterContext(openai_client()).with_options(max_retries=0).chat.completions
        ask = {"messages": [{"role": "user", "content": "Hello."}], "stream": True}
        broken = {"text": TEXT, "fail_after": 6, "fail_how": "reset"}
        for name in providers.NAMES:
            with self.answering(name, broken):
                with self.assertRaises(Exception) as caught:
                    with client.create(model=name, **ask) as stream:
                        list(stream)
                # An error of the stream, not a stream that seems to have ended well.
                self.assertIn(type(caught.exception).__module__.split(".")[0], ("openai", "httpx"))


if __name__ == "__main__":
    unittest.main()
