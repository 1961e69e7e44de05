"""The scripted model: reads a file, edits it, runs a command and answers, with the tools that the
agent declares. What it does next follows from the conversation alone, as with a real model, so that
calls which an agent makes in the background do not disturb it."""

import dataclasses
import json
import re
import threading
import uuid

FILE = "notes.txt"
EFFECT = "found.txt"
COMMAND = f"grep -c Friday {FILE} > {EFFECT}; cat {EFFECT}"
# Its output is what the edit and the answer are made of, so an agent that has not read cannot pass.
NOTE = re.compile(r"Contact: (?P<contact>\S+), code word (?P<word>[a-z]+), meeting on Thursday")


def note(contact, word, day):
    return f"Contact: {contact}, code word {word}, meeting on {day}"


def last_words(contact, word, count):
    return f"The code word is {word}, {contact} comes on Friday, lines with Friday: {count}."


@dataclasses.dataclass
class Tool:
    """A tool as the agent declares it; one without a schema takes a text."""

    name: str
    schema: dict | None
    namespace: str | None = None


@dataclasses.dataclass
class Request:
    """What the formats have in common."""

    tools: dict
    # The texts of all tool results so far, in order, and the text of everything else.
    results: list
    text: str
    # The schema of a structured answer.
    wants: dict | None = None
    stream: bool = False
    thinks: bool = False


@dataclasses.dataclass
class Reply:
    text: str
    tool: Tool | None = None
    arguments: dict | str | None = None
    # Agents take two answers of one id for one answer.
    unique: str = dataclasses.field(default_factory=lambda: uuid.uuid4().hex)

    def id(self, kind):
        return f"{kind}_{self.unique}"


class Script:
    """The model of one case, and all that it has noticed."""

    def __init__(self, folder):
        self.folder = folder
        self.lock = threading.Lock()
        # Faults of a request that no vendor would have answered, or that the agent's user would rue.
        self.faults = []
        self.requests = []
        self.steps = []

    def fault(self, text):
        with self.lock:
            self.faults.append(text)

    def saw(self, path, body):
        with self.lock:
            self.requests.append((path, body))

    def reply(self, request):
        if request.wants:
            return Reply(json.dumps(example(request.wants)))
        if "*file listing*" in request.text or "SEARCH/REPLACE" in request.text:
            return self.text_edit(request)
        if not any(find(request.tools, step) for step in ("read", "shell")):
            return Reply("A note about a meeting")
        return self.next_call(request)

    def next_call(self, request):
        number = len(request.results)
        with self.lock:
            self.steps.append(number)
        if number == 0:
            return self.call(request, "I read the note first.", "read", {"path": FILE})
        found = NOTE.search(request.results[0])
        if not found:
            return self.failed(f"the note is not in the result of the tool: {request.results[0]!r}")
        old, new = found[0], note(found["contact"], found["word"], "Friday")
        if number == 1:
            return self.call(request, "I change the day.", "edit", {"old": old, "new": new})
        if number == 2:
            return self.call(request, "I count the lines.", "shell", {"command": COMMAND})
        count = re.search(r"(?m)^(?:.*\D)?(1)\s*$", request.results[2])
        if not count:
            return self.failed(f"the command's output is not in its result: {request.results[2]!r}")
        return Reply(last_words(found["contact"], found["word"], count[1]))

    def failed(self, text):
        self.fault(text)
        return Reply(f"The script has failed: {text}")

    def call(self, request, words, step, values):
        tool, write = find(request.tools, step) or (None, None)
        if tool is None:
            return self.failed(f"there is no tool to {step} with among {sorted(request.tools)}")
        arguments = write(self.folder, values)
        if tool.schema is not None:
            if isinstance(arguments, str):
                # A tool that takes a text in other formats, or with another agent.
                arguments = {next(iter(tool.schema["required"])): arguments}
            arguments = self.fitted(tool, arguments)
        return Reply(words, tool, arguments)

    def fitted(self, tool, arguments):
        """Adds what else the schema requires; an argument that it does not know is a fault here."""
        known = tool.schema.get("properties", {})
        for name in arguments.keys() - known.keys():
            self.fault(f"{tool.name} has no {name} but {sorted(known)}")
        required = {name: known[name] for name in tool.schema.get("required", [])}
        return {name: example(schema) for name, schema in required.items()} | arguments

    def text_edit(self, request):
        """aider declares no tools: the file is in the conversation, and an edit is a text, in the form
        that it has asked for."""
        found = NOTE.search(request.text)
        count = re.search(r"(?m)^lines with Friday: (\d)", request.text)
        with self.lock:
            self.steps.append(1 if count else 0)
        if count:
            found = re.search(NOTE.pattern.replace("Thursday", "Friday"), request.text)
            return Reply(last_words(found["contact"], found["word"], count[1]))
        if not found:
            return self.failed("the note is not in the conversation")
        new = note(found["contact"], found["word"], "Friday")
        if "*file listing*" not in request.text:
            new = f"<<<<<<< SEARCH\n{found[0]}\n=======\n{new}\n>>>>>>> REPLACE"
        return Reply(f"I change the day.\n\n{FILE}\n```\n{new}\n```\n")


def find(tools, step):
    """The tool for a step, and how its arguments are written."""
    for name, write in TOOLS[step]:
        if name in tools:
            return tools[name], write
    return None


def lines(old, new):
    return f"*** Begin Patch\n*** Update File: {FILE}\n@@\n-{old}\n+{new}\n*** End Patch"


def by_shell(write):
    """The arguments of Codex's tool for commands."""
    return lambda folder, values: {"cmd": write(values)}


# What the tools of the agents are called, the preferred one first.
TOOLS = {
    "read": [
        ("Read", lambda folder, v: {"file_path": f"{folder}/{v['path']}"}),
        ("read", lambda folder, v: {"filePath": f"{folder}/{v['path']}"}),
        ("read_file", lambda folder, v: {"file_path": f"{folder}/{v['path']}"}),
        ("exec_command", by_shell(lambda v: f"cat {v['path']}")),
    ],
    "edit": [
        (
            "Edit",
            lambda folder, v: {
                "file_path": f"{folder}/{FILE}",
                "old_string": v["old"],
                "new_string": v["new"],
            },
        ),
        (
            "edit",
            lambda folder, v: {
                "filePath": f"{folder}/{FILE}",
                "oldString": v["old"],
                "newString": v["new"],
            },
        ),
        (
            "replace",
            lambda folder, v: {
                "file_path": f"{folder}/{FILE}",
                "old_string": v["old"],
                "new_string": v["new"],
            },
        ),
        ("apply_patch", lambda folder, v: patch_arguments(v)),
        (
            "exec_command",
            by_shell(lambda v: f"apply_patch <<'EOF'\n{lines(v['old'], v['new'])}\nEOF"),
        ),
    ],
    "shell": [
        ("Bash", lambda folder, v: {"command": v["command"]}),
        ("bash", lambda folder, v: {"command": v["command"]}),
        ("run_shell_command", lambda folder, v: {"command": v["command"]}),
        ("exec_command", by_shell(lambda v: v["command"])),
    ],
}


def patch_arguments(values):
    return lines(values["old"], values["new"])


def example(schema):
    """A value that fits a JSON schema."""
    if "enum" in schema:
        return schema["enum"][0]
    for any_of in ("anyOf", "oneOf"):
        if any_of in schema:
            return example(schema[any_of][0])
    kind = schema.get("type", "string")
    kind = (kind[0] if isinstance(kind, list) else kind).lower()
    if kind == "object":
        known = schema.get("properties", {})
        return {name: example(known.get(name, {})) for name in schema.get("required", known)}
    return {"array": [], "boolean": False, "integer": 1, "number": 1, "null": None}.get(kind, "A note")
