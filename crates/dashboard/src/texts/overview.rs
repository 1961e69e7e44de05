//! The overview and its charts.

use super::texts;

texts! {
    /// The figures of a project.
    Overview {
        title = "Overview";
        period = "Period";
        day = "24 hours";
        week = "7 days";
        month = "30 days";
        from = "From";
        to = "to";
        show = "Show";

        first_call = "Make the first call";
        nothing_called = "Nothing was called yet. The way to a first trace:";
        a_model = "A model and its provider's key.";
        register_one = "Register one";
        begin[register, sandbox] = "{register}, or begin with {sandbox}, which answers without a provider.";
        begin_without_admin[sandbox] = "An admin registers one, or begin with {sandbox}, which answers without a provider.";
        a_tier = "A tier that leads to it.";
        choose_models[settings] = "Choose the models of the tiers under {settings}: requests that name no model go to the one that fits.";
        models_are_chosen = "An admin chooses the models of the tiers: requests that name no model go to the one that fits.";
        a_key = "A key for the application.";
        make_key[keys] = "Make one under {keys}: its secret is shown once.";
        key_is_made = "Viewers make none: ask a member, an admin or an owner of the project for one.";
        the_call = "The call.";
        with_key[variable] = "With the key in {variable}:";
        openai_clients = "OpenAI's client for Python";
        anthropic_clients = "Anthropic's clients and Claude Code";
        google_clients = "Google's clients";

        spend = "Spend";
        requests = "Requests";
        blocked_calls = "Blocked";
        share_of_all(share) = "{share} of all";
        tokens = "Tokens";
        completion_tokens(count) = "{count} of them completion";
        median_latency = "Latency, median";
        high_latency = "Latency, p95";
        p99(latency) = "p99 {latency}";
        findings = "Traces with findings";
        findings_of(personal, injection, secret) = "{personal} personal data, {injection} injection, {secret} secret";
        margin = "Margin";
        of_revenue(revenue) = "of {revenue} revenue";
        new = "new";
        as_before = "as before";
        times_as_much(times) = "{times} times as much";

        mean_latency = "Mean latency";
        at_most(highest) = "at most {highest}";
        over_time(chart, highest) = "{chart} over time, at most {highest}; the table below has all figures";
        requests_failed(requests, failed) = "{requests}, {failed} failed";
        requests_blocked(requests, blocked) = "{requests}, {blocked} blocked";
        requests_failed_blocked(requests, failed, blocked) = "{requests}, {failed} failed, {blocked} blocked";
        failed = "failed";
        blocked = "blocked";
        as_table = "The charts as a table";
        table_of_buckets = "Table of the figures over time";
        begins = "Begins";
        days_are_utc = "Days and buckets are those of UTC.";
        all_buckets = "All buckets as CSV";

        by(dimension) = "By {dimension}";
        usage_by(dimension) = "Usage by {dimension}";
        no_calls_in_hours(hours) = "No calls in the last {hours} hours: choose a longer period, or make one.";
        no_calls_in_days(first, last) = "No calls from {first} to {last}: choose other days, or make one.";
        errors = "Errors";
        cost = "Cost";
        share = "Share of the cost";
        all_others = "all others";
        by_tag = "Usage by the tag";
        tag_example = "team";
    }
}
