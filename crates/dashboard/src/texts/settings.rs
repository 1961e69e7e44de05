//! Settings, insights and the audit.

use super::texts;

texts! {
    /// Settings of the project and of the organization.
    Settings {
        title = "Settings";
        look_before = "Look at the change before it is saved";
        nothing_changes = "Nothing would change.";
        table_of_changes = "Table of the changes";
        setting = "Setting";
        today = "Today";
        afterwards = "Afterwards";
        not_set = "not set";
        leave = "Leave it as it is";
        fields_are_old = "The settings have changed since this page was loaded: its fields show them as they are now, without your change";
        show_change = "Show the change";

        project(name) = "Project {name}";
        model_of_tier(tier) = "Model of the tier {tier}";
        budget = "Budget per month, USD";
        budget_no_number = "The budget must be a number";
        requests[off] = "Requests of a key per hour, or {off}";
        requests_no_number = "Requests of a key per hour must be a number";
        loop_requests[off] = "Requests in the loop window, or {off}";
        loop_requests_no_number = "Requests in the loop window must be a number";
        stores_content = "Prompts and answers are stored";
        traces = "A chat completion without a trace opens one";
        patch[null] = "A patch, which is merged at every depth; {null} turns a limit off and sets other values back";
        patch_no_object = "The patch must be a JSON object";
        patch_no_json(error) = "The patch is not JSON: {error}";
        patch_is_cut = "What may hold a token of an MCP server is not sent back: write it again without the token";
        patch_has_token = "A patch holds no tokens of MCP servers: each has a field of its own";

        mcp_tokens = "Tokens of MCP servers";
        about_mcp_tokens = "A token is stored sealed and never shown again. It counts from the next call on.";
        no_mcp_server[setting] = "No MCP server is allowed: {setting} lists those that requests may name.";
        no_mcp_token = "There is no token to store";
        mcp_token[server] = "Token for {server}";
        mcp_token_set[server] = "Token for {server} (set: leave empty to keep it)";
        save_mcp_token(server) = "Save the token for {server}";
        asks_to_remove_mcp_token(server) = "Remove the token for {server}? Calls with it fail from the next one on.";
        remove_mcp_token(server) = "Remove the token for {server}";

        organization(name) = "Organization {name}";
        requires_factor = "Everybody must have a second factor";
        disables_passwords = "Nobody signs in with a password: providers of single sign-on let people in";
        default_role = "Role of people who sign in through a provider and fit no rule";
        no_default_role = "none: they are refused";
    }
}

texts! {
    /// Possible savings, and changes.
    Insights {
        title = "Insights";
        compute = "Compute again";
        none = "No insight. They are computed every hour from the latest calls: models that fit better, models that have become slow, intents that cost most.";
        savings[amount, time] = "{amount} a month · since {time}";
        savings_later[time] = "Savings are known after a day · since {time}";
        since[time] = "Since {time}";
        numbers = "The numbers";
        dismiss = "Dismiss";
        dismiss_insight(title) = "Dismiss {title}";

        cheaper_model(subject) = "A cheaper model fits: {subject}";
        about_cheaper_model = "The same calls would have cost a fraction on another registered model. A replay compares the answers.";
        slow_model(subject) = "A model has become slow: {subject}";
        about_slow_model = "Its calls take much longer than they did. Look at its endpoints, or send the tier to another model.";
        common_intent(subject) = "An intent makes up much of the work: {subject}";
        about_common_intent = "Many requests have the same intent. A tier, a smaller model or a prompt of its own may serve them.";

        drift = "Drift of models in the last 7 days";
        no_drift = "No model has answered often enough in the last 7 days and in the 7 days before to compare them.";
        about_drift = "Population stability indices against the 7 days before: below 0.1 the answers are alike, above 0.2 they have changed.";
        table_of_drift = "Table of drift";
        model = "Model";
        answers = "Answers";
        before = "Before";
        length = "Length";
        refusals = "Refusals";
        latency = "Latency";
        language = "Language";
        verdict = "Verdict";
        changed = "changed";
    }
}

texts! {
    /// The actions of people.
    Audit {
        title = "Audit";
        json_lines = "JSON Lines";
        event = "Event";
        actor = "Actor";
        target = "Target";
        no_further = "No further events.";
        none_yet = "No event yet. Changes that people make here are listed from then on.";
        none_fits[clear] = "No event fits. Take a filter away, or {clear}.";
        events = "Audit events";
        time = "Time";
        address = "Address";
        details = "Details";
    }
}
