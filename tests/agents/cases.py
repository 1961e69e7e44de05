"""The agents, how each is run without a terminal, and the cases: an agent, the API that it speaks and
the vendor of the model behind it."""

import dataclasses
import json
import shlex

from script import COMMAND, FILE

TASK = (
    f"Read {FILE}, change the day of the meeting in it to Friday, then run the command that counts "
    "the lines with that day, and report the code word, the contact and the count."
)

# aider sends the output of a command to the model if the command has failed.
TEST = f"{COMMAND} | sed 's/^/lines with Friday: /'; exit 1"

# How an agent's command goes on, for a task without a person at the terminal.
HEADLESS = {
    "claude-code": ["-p", TASK, "--permission-mode", "acceptEdits", "--allowedTools", "Bash"],
    "codex": ["exec", "--dangerously-bypass-approvals-and-sandbox", TASK],
    "opencode": ["run", TASK],
    "aider": ["--yes-always", "--auto-test", "--test-cmd", TEST, "--message", TASK, FILE],
    "gemini-cli": ["--yolo", "--skip-trust", "-p", TASK],
}

COMMANDS = {
    "claude-code": "claude",
    "codex": "codex",
    "opencode": "opencode",
    "aider": "aider",
    "gemini-cli": "gemini",
}

MODELS = {
    "openai": "gpt-5.5",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-2.5-pro",
}

# A provider's path below the address of a case.
PATHS = {"openai": "/v1", "anthropic": "", "gemini": ""}


@dataclasses.dataclass(frozen=True)
class Case:
    agent: str
    # The vendor of the model.
    vendor: str
    # Settings that `agent-setup` does not print, as the page of the agent has them.
    by_hand: str = ""
    # Whether the settings are written into the agent's file, or exported.
    written: bool = False
    # Whether the agent is told the model. One that is not asks for its own.
    named: bool = True
    # Other names for the model, which the agent calls in the background.
    aliases: tuple = ()
    # Whether the model's server has `/responses`, so that the agent's requests pass as they came.
    passes: bool = False

    @property
    def name(self):
        by = f"-by-{self.by_hand}" if self.by_hand else ""
        return f"{self.agent}{by}-on-{self.vendor}{'-passing' if self.passes else ''}"

    @property
    def model(self):
        return MODELS[self.vendor]

    @property
    def root(self):
        """A route that the agent calls."""
        if self.agent == "gemini-cli":
            return "/gemini/v1beta/models"
        return None


CASES = [
    Case("claude-code", "anthropic"),
    Case("claude-code", "openai", named=False, aliases=("claude-*",)),
    Case("claude-code", "gemini", written=True),
    Case("codex", "openai"),
    Case("codex", "openai", passes=True),
    Case("codex", "anthropic", written=True),
    Case("opencode", "openai"),
    Case("opencode", "anthropic", written=True),
    Case("opencode", "anthropic", by_hand="anthropic"),
    Case("opencode", "openai", by_hand="anthropic", named=False, aliases=("claude-*",)),
    Case("aider", "openai"),
    Case("aider", "anthropic", written=True),
    Case("aider", "anthropic", by_hand="anthropic"),
    Case("gemini-cli", "gemini", by_hand="file"),
    Case("gemini-cli", "openai", written=True, aliases=("gemini-*",)),
    Case("gemini-cli", "anthropic", written=True, aliases=("gemini-*",)),
]


def by_hand(case, url, key):
    """The shell commands for settings that `agent-setup` does not print."""
    if case.agent == "opencode":
        options = {"baseURL": f"{url}/anthropic/v1", "apiKey": key}
        if case.named:
            provider = {"npm": "@ai-sdk/anthropic", "name": "Sluice", "options": options}
            provider["models"] = {case.model: {"name": case.model}}
            settings = {"provider": {"sluice": provider}, "model": f"sluice/{case.model}"}
        else:
            # The provider as opencode comes with it, which has small models of its own.
            settings = {"provider": {"anthropic": {"options": options}}}
            settings["model"] = f"anthropic/{MODELS['anthropic']}"
        return f"export OPENCODE_CONFIG_CONTENT={shlex.quote(json.dumps(settings))}\nopencode"
    if case.agent == "aider":
        return (
            f"export ANTHROPIC_API_BASE={url}/anthropic ANTHROPIC_API_KEY={key}\n"
            f"aider --model anthropic/{case.model}"
        )
    if case.agent == "gemini-cli":
        # Told an address alone, it takes the vendor's API for another kind of gateway.
        settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
        return (
            f"mkdir ~/.gemini && echo {shlex.quote(json.dumps(settings))} > ~/.gemini/settings.json\n"
            f"export GOOGLE_GEMINI_BASE_URL={url}/gemini GEMINI_API_KEY={key}\n"
            f"export GEMINI_MODEL={case.model}\n"
            "gemini"
        )
    raise ValueError(f"{case.name} has no settings")
