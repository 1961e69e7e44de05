//! Keys and what they and their project spend.

use super::texts;

texts! {
    /// The keys of a project.
    Keys {
        title = "Keys";
        made(name) = "Key {name}";
        copy_now = "Copy the secret now: it is not shown again.";
        name_of_new = "Name of a new key";
        cap_or_none = "Most per hour, USD (empty: no cap)";
        cap_or_highest = "Most per hour, USD (empty: the highest allowed)";
        cap_no_amount = "The cap must be a number of dollars";
        make = "Make a key";
        none_yet = "No key yet. Applications call this gateway with one.";
        name = "Name";
        state = "State";
        last_hour = "Last hour";
        cap = "Cap per hour";
        share = "Share of the cap";
        last_used = "Last used";
        expires = "Expires";
        owner = "Made by";
        no_owner = "nobody";
        user(number) = "user {number}";
        you = "you";
        reserved = "Reserved";
        reserved_here = "Reserved amounts are those of all gateways that share a Redis; without one, of the gateway that shows this page.";
        models = "Models";
        endpoints = "Endpoints";
        allowed = "May call";
        all = "all";
        all_models_by(endpoints) = "all, by {endpoints}";
        models_by(models, endpoints) = "{models}, by {endpoints}";
        hold_to = "Only some models or endpoints";
        another_model = "Another model (its identifier)";
        may_use = "The key may use";
        all_of_project = "all that the project has";
        only_ticked = "only what is ticked";
        about_lists = "If only what is ticked may be used and nothing is ticked, the key may call nothing.";
        models_or_all = "Models are ticked, and all may be used: choose one of the two";
        endpoints_or_all = "Endpoints are ticked, and all may be used: choose one of the two";
        own_spend(amount) = "Your own keys have spent {amount} in this project in the last 30 days.";
        cap_reached = "paused: cap reached";
        in_loop = "paused: loop";
        reset = "Reset";
        reset_key(name) = "Reset {name}";
        rotate = "Rotate";
        rotate_key(name) = "Rotate {name}";
        old_secret_works_for = "The secret of today works for";
        no_longer = "no longer";
        an_hour = "an hour";
        a_day = "a day";
        a_week = "a week";
        make_secret = "Make a new secret";
        revoke = "Revoke";
        revoke_key(name) = "Revoke {name}";
        asks_to_revoke(name) = "Revoke the key {name}? Calls with it fail from now on.";
    }
}

texts! {
    /// Limits and budgets.
    Limits {
        title = "Limits";
        heading = "Limits and budgets";
        this_month = "This month";
        spent_of[spent, budget] = "{spent} spent, of {budget}";
        spent_and_reserved_of[spent, reserved, budget] = "{spent} spent, {reserved} reserved for calls that run, of {budget}";
        spent[spent] = "{spent} spent.";
        spent_and_reserved[spent, reserved] = "{spent} spent, {reserved} reserved for calls that run.";
        no_budget = "The project has no budget.";
        set_budget[setting, settings] = "The project has no budget: set {setting} under {settings}.";
        held(percent) = "{percent} is spent or reserved";
        keys_in_last_hour = "Keys in the last hour";
        no_key[keys] = "No key yet. Make one under {keys}: what it spends is shown here.";
        no_key_to_see = "No key yet. Members, admins and owners of the project make them: what they spend is shown here.";
        table_of_keys = "Table of the keys' limits";
        key = "Key";
        state = "State";
        spent_column = "Spent";
        reserved = "Reserved";
        cap = "Cap per hour";
        share = "Share of the cap";
        requests = "Requests";
        requests_of(most) = "Requests, of {most}";
        counted_by = "Reserved amounts and requests are those of all gateways that share a Redis; without one, of the gateway that shows this page.";
    }
}
