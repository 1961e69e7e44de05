//! Safety and its review queue.

use super::texts;

texts! {
    /// Texts and drafts that are tried against the safety layer.
    Safety {
        title = "Safety";
        rules_and_trials = "Rules and trials";
        passes = "The prompt passes";
        passes_for_review = "The prompt passes, and is marked for review";
        is_blocked = "The prompt is blocked";
        risk_score(score) = "risk score {score}";
        finding(name, start, end, score) = "{name}, characters {start} to {end}, score {score}";
        provider_gets = "A provider gets";
        slow_rule(name, reason) = "The pattern of {name} was given up, and counts as no match: {reason}.";
        show_as_change = "Show the draft as a change of the settings";

        prompt_to_try = "A prompt to try. No model is called, and nothing is recorded.";
        with_draft = "With a draft: a rule, or other settings, which are not saved";
        name_of_rule = "Name of a rule; that of a rule below replaces it";
        regular_expression = "Pattern, a regular expression";
        pattern_example = "(?i)project bluebird";
        a_match = "A match";
        blocks = "blocks";
        is_flagged = "is flagged";
        weight_in_score = "Weight in the risk score, 0 to 1";
        settings_as_json = "Settings as JSON, merged over those of the project";
        calls_of_last = "Recorded calls of the last";
        day = "24 hours";
        week = "7 days";
        month = "30 days";
        make_backtest = "Backtest the draft";
        about_backtest = "A job judges them by the draft; its page shows what would have been blocked, moved, refused and saved. The text is no part of it.";
        try_it = "Try it";
        who_may_try = "Members, admins and owners can try texts here.";

        settings_no_object = "The settings must be a JSON object";
        settings_no_json(error) = "The settings are not JSON: {error}";
        section_no_object = "settings.safety must be an object";
        rules_no_array = "settings.safety.rules must be an array of objects";
        weight_no_number = "The weight must be a number from 0 to 1";
        no_such_window = "window must be 24, 168 or 720 hours";
        fault_of_field(fault) = "The {fault}";

        advice = "Advice by verdicts";
        show_change = "Show the change";
        rules = "Rules of the project";
        no_rule_to_try = "No rule yet. Write one into the draft above, and try it.";
        no_rule = "No rule yet. Admins and owners make them in the settings.";
        table_of_rules = "Table of the rules";
        rule = "Rule";
        pattern = "Pattern";
        weight = "Weight";
        draft = "Draft";
        draft_from = "Draft from it";
        draft_from_rule(name) = "Draft from it: {name}";
    }
}

texts! {
    /// Findings that wait for a person.
    Reviews {
        title = "Review queue";
        none[threshold, try_it] = "No finding waits. A step comes here when its risk score reaches {threshold} and it was not blocked. To see what that would be for your traffic, {try_it}.";
        none_to_see(threshold) = "No finding waits. A step comes here when its risk score reaches {threshold} and it was not blocked.";
        try_it = "try a text or a draft of other settings";
        no_further[first_page] = "No further finding waits. {first_page} has the newest.";
        first_page = "The first page";
        waiting[count, threshold, safety, doctor] = "{count} wait for a verdict: steps with a risk score from {threshold} on that were not blocked. From ten verdicts on findings of a category on, the {safety} and {doctor} advise on the settings.";
        more_waiting[count, threshold, safety, doctor] = "{count} and more wait for a verdict: steps with a risk score from {threshold} on that were not blocked. From ten verdicts on findings of a category on, the {safety} and {doctor} advise on the settings.";
        safety_page = "safety page";
        risk(score) = "risk {score}";
        step_of_id(id) = "Step {id}";
        finding(name, score) = "{name}, score {score}";
        finding_at(name, score, place) = "{name}, score {score}, {place}";
        in_output = "in the output";
        in_message(role) = "in a {role} message";
        in_field_of_message(field, role) = "in {field} of a {role} message";
        in_field(field) = "in {field}";
        more_findings(count) = "{count} more on the page of the step";
        elsewhere{count} = { 1 => "{count} finding is in a part of the step that is not shown here.", _ => "{count} findings are in parts of the step that are not shown here." };
        not_stored = "Its texts are not stored, or their retention is over.";
        too_large = "Its texts are large: they are on the page of the step.";
        damaged = "Its texts are damaged and cannot be opened.";

        judged_meanwhile(id) = "Nothing was changed: somebody has judged step {id} meanwhile. The verdict that stands is below.";
        optional_note = "Note (optional)";
        confirm = "Confirmed";
        confirm_step(id) = "Confirmed, step {id}";
        refute = "False positive";
        refute_step(id) = "False positive, step {id}";
        file = "CSV of the queue";
        about_file = "without texts, the newest 1,000";
        who_judges = "Members, admins and owners of the project judge.";

        judged_lately = "Judged in the last 30 days";
        table_of_verdicts = "Table of verdicts";
        step = "Step";
        findings = "Findings";
        verdict = "Verdict";
        note = "Note";
        judge = "By";
        unknown_judge = "unknown";
        step_is_gone = "deleted";
        judged = "Judged";
        change = "Change it";
        confirmed = "confirmed";
        false_positive = "false positive";
    }
}
