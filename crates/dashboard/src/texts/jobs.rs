//! Jobs.

use super::texts;

texts! {
    /// The jobs of a project.
    Jobs {
        title = "Jobs";
        about = "Replays, backtests and exports of this project. One that is over is listed until its result expires.";
        none = "No job. A trace is replayed from its page, draft settings are backtested from the safety page, and exports begin through the API.";
        job = "Job";
        kind = "Kind";
        state = "State";
        done = "Done";
        share_done = "Share that is done";
        asked_for = "Asked for";
        took = "Took";
        progress(done, total) = "{done} of {total}";
        percent_done(percent) = "{percent} done";
        replay = "Replay";
        export = "Export";
        backtest = "Backtest";
        background = "Background work";
    }
}

texts! {
    /// A job and its outcome.
    Job {
        title = "Job";
        progress(done, total) = "{done} of {total} steps";
        asked_for[time] = "asked for {time}";
        took(duration) = "took {duration}";
        look_again = "Look again";
        window[from, to] = "Judges the requests that ended from {from} to {to} by the draft. Nothing is called or spent.";
        found_until[time] = "It is found until {time}, at the latest.";
        all = "All jobs";

        file = "File";
        rows_and_size(rows, size) = "{rows} rows, {size}";
        download = "Download";
        export_with_contents[format, from, to] = "{format} of the steps that ended from {from} to {to}, with contents.";
        export_without_contents[format, from, to] = "{format} of the steps that ended from {from} to {to}, without contents.";
        export_is_hidden = "Admins and owners see what is exported, and download the file.";
        content_errors(count) = "{count} rows lack a content that is stored.";
        step_errors(count) = "{count} steps cannot be read.";

        judged = "Judged requests";
        of_steps(count) = "of {count} steps";
        of_requests(share) = "{share} of the requests";
        newly_blocked = "Newly blocked";
        none_newly_blocked = "No answered request would be blocked.";
        newly_passed = "Newly passed";
        none_newly_passed = "No blocked request would pass.";
        moved_to_tier = "Moved to another tier";
        refused = "Refused by limits";
        cost = "Cost by the draft";
        recorded(cost) = "recorded {cost}";
        savings = "Savings";
        about_savings = "on requests answered by both";

        without_content(count) = "{count} requests have no stored content, and were not judged.";
        unreadable(count) = "{count} requests could not be judged.";
        unpriced(count) = "{count} requests would be answered by a model without a price.";
        refused_already(count) = "{count} requests would be refused by the limits of now as well.";
        refused_no_longer(count) = "{count} requests would be refused by the limits of now alone.";
        spent_on_blocked(amount) = "{amount} was spent on requests that would be blocked.";
        spent_on_passed(amount) = "{amount} would be spent on requests that would pass.";
        spared_by_limits(amount) = "{amount} would not be spent because of limits.";
        truncated = "The window has more than 1,000,000 steps: the earliest were read.";
        without_effect(sections) = "Settings of the draft without effect on a backtest: {sections}.";

        table_of(title) = "Table: {title}";
        finding = "Finding";
        requests = "Requests";
        share = "Share";
        first_steps = "The first steps";
        refused_by_draft = "Refused by limits of the draft";
        table_of_refusals = "Table of refusals";
        limit = "Limit";
        not_spent = "Not spent";
        tiers = "Tiers";
        table_of_tiers = "Table of tiers";
        recorded_tier = "Recorded";
        draft_tier = "Draft";
        recorded_cost = "Recorded cost";
        draft_cost = "Draft cost";
        moved = "moved";
    }
}
