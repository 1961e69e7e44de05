"""The published names of attributes and metrics, from OpenTelemetry's own package, and the types that its
documents give them."""

import importlib
import inspect
import pkgutil
import re

import opentelemetry.semconv._incubating.attributes as published
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics

# A constant and the beginning of its description.
CONSTANT = re.compile(r'^([A-Z][A-Z0-9_]*): Final = "([^"]+)"\n"""\n([^\n]*)', re.MULTILINE)
# A name that was given up; those of generative AI have only moved to a repository of their own.
GIVEN_UP = re.compile(r"Deprecated: (Replaced|Removed|Obsoleted)")


def names(module):
    found = CONSTANT.findall(inspect.getsource(module))
    return {name for _, name, text in found if not GIVEN_UP.match(text)}


def attributes():
    modules = pkgutil.iter_modules(published.__path__, published.__name__ + ".")
    return set().union(*(names(importlib.import_module(module.name)) for module in modules))


class Instruments:
    """What a metric's factory asks a meter for."""

    def create_histogram(self, name, description, unit):
        return (name, description, unit)


def metrics():
    """Unit and description of every published metric of generative AI, by name."""
    made = [
        factory(Instruments())
        for name, factory in inspect.getmembers(gen_ai_metrics, inspect.isfunction)
        if name.startswith("create_")
    ]
    return {name: (description, unit) for name, description, unit in made}


def words(enumeration):
    return {member.value for member in enumeration}


OPERATIONS = words(gen_ai_attributes.GenAiOperationNameValues)
PROVIDERS = words(gen_ai_attributes.GenAiProviderNameValues)
TOKEN_TYPES = words(gen_ai_attributes.GenAiTokenTypeValues)

# The types in the tables of the conventions; all others are texts.
INTEGERS = {
    "gen_ai.request.max_tokens",
    "gen_ai.request.seed",
    "gen_ai.request.choice.count",
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.reasoning.output_tokens",
}
DOUBLES = {
    "gen_ai.request.temperature",
    "gen_ai.request.top_p",
    "gen_ai.request.top_k",
    "gen_ai.request.frequency_penalty",
    "gen_ai.request.presence_penalty",
    "gen_ai.response.time_to_first_chunk",
}
LISTS = {"gen_ai.response.finish_reasons", "gen_ai.request.stop_sequences"}
TRUTHS = {"gen_ai.request.stream"}

BOUNDS = {
    "gen_ai.client.token.usage": [4.0**power for power in range(14)],
    "gen_ai.client.operation.duration": [0.01 * 2**power for power in range(14)],
}


def kind(name):
    """The field of a value that the conventions give an attribute."""
    for names, field in (
        (INTEGERS, "int_value"),
        (DOUBLES, "double_value"),
        (LISTS, "array_value"),
        (TRUTHS, "bool_value"),
    ):
        if name in names:
            return field
    return "string_value"
