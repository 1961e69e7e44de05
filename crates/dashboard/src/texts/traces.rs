//! Traces, their steps, and replays of them.

use super::texts;

texts! {
    /// The list of traces.
    Traces {
        title = "Traces";
        in_all(total) = "{total} in all";
        status = "Status";
        any = "any";
        grade = "Grade";
        finding = "Finding";
        errors = "Errors";
        with = "with";
        without = "without";
        model = "Model";
        user = "User";
        session = "Session";
        key = "Key";
        tag = "Tag, name=value";
        tag_example = "team=search";
        metadata_field = "Metadata, name=value";
        metadata_example = "customer=acme";
        cost_from = "Cost from, USD";
        duration_from = "Duration from, ms";
        order = "Order";
        newest_first = "newest first";
        oldest_first = "oldest first";

        none_yet[make_key] = "No trace yet. A call opens one: {make_key} and call a model.";
        make_key = "make a key";
        none_yet_to_see = "No trace yet. A call opens one: ask a member, an admin or an owner of the project for a key, and call a model.";
        none_fits[clear] = "No trace fits. Take a filter away, or {clear}.";
        no_further[first] = "No further traces. Go back to {first}, or take another filter.";
        the_first_page = "the first page";
        opened = "Opened";
        trace = "Trace";
        cost = "Cost";
        duration = "Duration";
        metadata = "Metadata";
        open = "open";
    }
}

texts! {
    /// A trace.
    Trace {
        title = "Trace";
        heading[id] = "Trace {id}";
        opened[time] = "opened {time}";
        why_this_grade = "Why this grade";
        steps_in_time = "Steps in time";
        table_of_steps = "Table of the steps in time";
        step = "Step";
        place_in_time = "Place in time";
        duration = "Duration";
        cost = "Cost";
        tokens = "Tokens";
        tier = "Tier";
        findings = "Findings";
        more(count) = "and {count} more";
        steps = "Steps";
        steps_of(first, last, count) = "Steps {first} to {last} of {count}";
        steps_before = "Steps before";
        next_steps = "Next steps";
        beginning_of(size) = "The beginning of {size}. The API has all of it.";
        metadata = "Metadata";
        median(latency) = "median {latency}";
        margin = "Margin";
        of(revenue) = "of {revenue}";
        shadow_model = "Shadow model";
        alike = "alike, 0 to 1";
        likely_stalled = "likely stalled";
        invented_calls = "invented tool calls";

        no_step[parameter] = "No step yet. A call that names this trace as its {parameter} becomes one.";

        on_others = "Replay it on other models";
        needs_key[make_key] = "A replay on other models is paid by a key of this project that you may use: {make_key}.";
        who_replays = "Members, admins and owners of the project replay it on other models.";
        calls_are_repeated = "Its calls are made again as they were recorded, are paid by the key, and are compared with these.";
        another_model = "Another model (its identifier)";
        models = "Models; none keeps that of each call";
        key = "Key";
        leave_out_above = "Leave out calls above, USD";
        make = "Replay";
        no_such_key = "The key is revoked, or is none of this project: choose another one";
        highest_no_amount = "The highest cost of a call must be a number of dollars";
    }
}

texts! {
    /// A step of a trace.
    Step {
        number(id) = "Step {id}";
        number_and_time[step, time] = "{step} · {time}";
        of_trace[trace] = "of trace {trace}";
        before_it = "Step before";
        behind_it = "Next step";
        duration(value) = "duration {value}";
        cost(value) = "cost {value}";
        prompt_tokens(value) = "prompt tokens {value}";
        completion_tokens(value) = "completion tokens {value}";
        first_token_after(value) = "first token after {value}";
        attempts(value) = "attempts {value}";
        shadow_of(step) = "shadow of {step}";
        tier(value) = "tier {value}";
        risk_score(value) = "risk score {value}";
        beginning_of(size) = "The beginning of {size}.";
        part_of(begin, end, whole) = "{begin} to {end} of {whole}.";
        all_of_it = "All of it";
        part_before = "Part before";
        next_part = "Next part";
        texts_before[texts] = "Before these: {texts}.";
        earlier_texts{count} = { 1 => "{count} text", _ => "{count} texts" };
        content = "content";
        too_deep = "It cannot be shown: it is nested too deeply.";
        input = "input";
        earlier_messages(count) = "{count} earlier messages";
        output = "output";
        allowed = "allowed";
        not_allowed = "not allowed";
    }
}

texts! {
    /// A replay beside its source.
    Replay {
        title = "Replay";
        heading[trace] = "Replay of {trace}";
        calls = "Pages of calls";
        progress(done, total) = "{done} of {total} calls";
        look_again = "Look again";
        in_total = "In total";
        table_of_traces = "Table of the traces";
        trace = "Trace";
        grade = "Grade";
        cost = "Cost";
        change = "Change";
        change_in_total = "Change in total";
        time = "Time";
        models = "Models";
        about_changes = "Changes are those of the calls that were answered again. Those in total count all calls, also those that were not repeated.";
        call(step) = "Call {step}";
        source = "Source";
        no_answer = "No answer is shown: it is not stored, too long, or one of too many.";
        alike(share) = "{share} alike";
        too_dear = "Left out: it would cost more than the highest cost, or its model has no price";
        too_public = "Left out: it is sensitive, and the model is public";
        not_repeated = "Left out: embeddings and images are not repeated";
        blocked(reason) = "Blocked: {reason}";
        failed(error) = "Failed: {error}";
        without(parts) = "Repeated without {parts}, which only the vendor of the source has";
    }
}
