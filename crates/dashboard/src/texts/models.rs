//! Models, and the routing of prompts to them.

use super::texts;

texts! {
    /// The model registry.
    Models {
        title = "Models";
        register = "Register a model";
        none_yet[sandbox] = "No model yet. Register one, with its provider and price; until then {sandbox} answers without a provider.";
        none_without_admin[sandbox] = "No model yet. An admin or owner registers them; until then {sandbox} answers without a provider.";
        model = "Model";
        provider = "Provider";
        address = "Address";
        place = "Where";
        prompt_price = "Prompt, per million tokens";
        completion_price = "Completion";
        price_source = "Prices are from";
        listed(day) = "the vendor's list of {day}";
        own_price = "this registry";
        tiers = "Tiers";
        own_address = "the vendor's own";
        public(region) = "public, {region}";
        private(region) = "private, {region}";
        no_price = "no price: refused under a cap or budget";
    }
}

texts! {
    /// A model.
    Model {
        heading[identifier] = "Model {identifier}";
        new = "New model";
        endpoints = "Endpoints";
        call_in_playground = "Call it in the playground";
        its_traces = "Its traces";
        table_of_endpoints = "Table of the endpoints";
        endpoint = "Endpoint";
        only_endpoint = "the only one";
        endpoint_name(number) = "endpoint {number}";
        address = "Address";
        region = "Region";
        circuit = "Circuit";
        open = "open: no calls until it has rested";
        closed = "closed";
        check = "Check";
        reachable = "can be reached";
        not_checked = "not checked";
        check_connection = "Check the connection";
        about_check = "No prompt and no credential is sent.";
        test_call = "A test call";
        about_call[prompt] = "A real call of {prompt} with a few tokens: it tells whether credential, name and account are good, is recorded as a trace, and is paid by the key.";
        needs_key[keys] = "A test call is paid by a key: make one of your own under {keys}.";
        key = "Key";
        call_it = "Call it";
        answered = "answered";
        status(number) = "status {number}";
        fallback_called = "It failed, and its fallback was called: the trace says why.";
        stood_in(other) = "It gave no answer: {other} was called in its place.";
        nothing_said = "It answered with an empty text, as models do that think first.";
        its_trace = "Its trace";
        shown_again = "This form was sent before. Its answer is shown again: no model was called, and nothing was spent. Sent from this page, it is another call.";

        name = "Name";
        identifier[field] = "Identifier that callers pass as {field}";
        wire_format = "Wire format";
        openai_format = "openai: chat completions, also of other servers";
        address_or_own = "Address (empty: the vendor's own)";
        is_old = "The model has changed since this page was loaded: the form shows it as it is now, without your change";
        api_key = "Provider's key";
        api_key_set = "Provider's key (set; empty keeps it)";
        api_key_stays = "The provider's key is not sent to another address: enter the key for the new one";
        input_price = "USD per 1,000 prompt tokens";
        input_no_amount = "The price of prompt tokens must be a number of dollars";
        output_price = "USD per 1,000 completion tokens";
        output_no_amount = "The price of completion tokens must be a number of dollars";
        list_price = "the list price";
        retention = "Days until its data is deleted";
        retention_no_number = "The days until its data is deleted must be a whole number";
        public = "Public: it may not get sensitive requests";
        register = "Register";
        all = "All models";
        delete = "Delete the model";
        asks_to_delete(identifier) = "Delete the model {identifier}? Calls that name it fail from now on.";
    }
}

texts! {
    /// Routing.
    Routing {
        title = "Routing";
        tiers = "Tiers";
        table_of_tiers = "Table of the tiers";
        tier = "Tier";
        purpose = "For";
        model = "Model";
        for_simple = "Short prompts of low stakes";
        for_complex = "Long, reasoning or multi-step prompts";
        for_secure = "Sensitive requests: a private model";
        no_model = "none: such requests are refused";
        set_under[settings] = "Models of tiers are set under {settings}.";
        prompt_to_try = "A prompt to try. No model is called, and nothing is recorded.";
        sensitive = "The trace is marked sensitive";
        try_it = "Try it";
        goes_to[tier] = "The prompt goes to {tier}";
        complexity(score) = "complexity {score}";
        risk(score) = "risk {score}";
        about(cost) = "about {cost}";
        no_price = "no price";
        is_blocked = "The prompt is blocked";
        finds_no_model = "The prompt finds no model";

        threshold_of(threshold) = "Threshold of complexity: {threshold}";
        none_routed = "No call of the last 7 days was routed by its complexity. With calls, this shows what another threshold would change.";
        about_thresholds[tier, calls] = "Prompts from this complexity on go to {tier}. Each row is taken from the latest {calls} calls of the last 7 days that chose a tier.";
        table_of_thresholds = "Table of thresholds";
        threshold = "Threshold";
        to_complex = "To complex";
        share = "Share to complex";
        moved = "Moved";
        in_use = "in use";
        new_threshold = "New threshold, 0 to 1";
        no_threshold = "The threshold must be a number from 0 to 1";
        set_it = "Set it";
    }
}

texts! {
    /// The playground. The script has the texts of an answer from its form, and puts in what is in braces.
    Playground {
        title = "Playground";
        no_key[keys] = "Calls from here are paid by a key, under its cap and lists. Make one of your own under {keys}.";
        calls_are_real = "Calls are real: they pass safety, are recorded as traces, and are paid by the key.";
        needs_script = "This page needs JavaScript.";
        key = "Key";
        model = "Model";
        beside = "Beside it";
        no_second = "no second model";
        by_routing = "chosen by routing";
        system = "System prompt";
        prompt = "Prompt";
        send = "Send";
        stop = "Stop";
        answer(number) = "Answer {number}";

        waits = "waits for the first word";
        stopped = "stopped";
        status(number) = "status {number}";
        answered_by(model) = "answered by {model}";
        tier(tier) = "tier {tier}";
        time(millis) = "{millis} ms";
        first_word(millis) = "first word after {millis} ms";
        tokens(prompt, completion) = "{prompt} + {completion} tokens";
        shown_again = "sent before: its answer is shown again, and nothing was spent";
        trace = "trace";
    }
}
