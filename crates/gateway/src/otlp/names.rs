//! Names of attributes: those of the conventions for generative AI (release 1.44 of OpenTelemetry's
//! semantic conventions), and our own, which begin with `sluice.`.

pub(super) const ERROR_TYPE: &str = "error.type";
pub(super) const USER_ID: &str = "user.id";
pub(super) const METRIC_OVERFLOW: &str = "otel.metric.overflow";

pub(super) const OPERATION: &str = "gen_ai.operation.name";
pub(super) const PROVIDER: &str = "gen_ai.provider.name";
pub(super) const CONVERSATION: &str = "gen_ai.conversation.id";
pub(super) const REQUEST_MODEL: &str = "gen_ai.request.model";
pub(super) const REQUEST_STREAM: &str = "gen_ai.request.stream";
pub(super) const MAX_TOKENS: &str = "gen_ai.request.max_tokens";
pub(super) const STOP_SEQUENCES: &str = "gen_ai.request.stop_sequences";
pub(super) const SEED: &str = "gen_ai.request.seed";
pub(super) const CHOICE_COUNT: &str = "gen_ai.request.choice.count";
pub(super) const OUTPUT_TYPE: &str = "gen_ai.output.type";
pub(super) const RESPONSE_MODEL: &str = "gen_ai.response.model";
pub(super) const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
pub(super) const TIME_TO_FIRST_CHUNK: &str = "gen_ai.response.time_to_first_chunk";
pub(super) const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
pub(super) const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
pub(super) const CACHE_READ_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
pub(super) const CACHE_CREATION_TOKENS: &str = "gen_ai.usage.cache_creation.input_tokens";
pub(super) const REASONING_TOKENS: &str = "gen_ai.usage.reasoning.output_tokens";
pub(super) const TOKEN_TYPE: &str = "gen_ai.token.type";
pub(super) const INPUT_MESSAGES: &str = "gen_ai.input.messages";
pub(super) const OUTPUT_MESSAGES: &str = "gen_ai.output.messages";
pub(super) const TOOL_DEFINITIONS: &str = "gen_ai.tool.definitions";
pub(super) const TOOL_NAME: &str = "gen_ai.tool.name";
pub(super) const TOOL_TYPE: &str = "gen_ai.tool.type";
pub(super) const TOOL_CALL_ID: &str = "gen_ai.tool.call.id";
pub(super) const TOOL_CALL_ARGUMENTS: &str = "gen_ai.tool.call.arguments";
pub(super) const TOOL_CALL_RESULT: &str = "gen_ai.tool.call.result";

/// Parameters of the chat-completions format that are numbers, and their attributes.
pub(super) const NUMBERS: [(&str, &str); 5] = [
    ("temperature", "gen_ai.request.temperature"),
    ("top_p", "gen_ai.request.top_p"),
    ("top_k", "gen_ai.request.top_k"),
    ("frequency_penalty", "gen_ai.request.frequency_penalty"),
    ("presence_penalty", "gen_ai.request.presence_penalty"),
];

/// The operation of a tool that the gateway runs.
pub(super) const EXECUTE_TOOL: &str = "execute_tool";
