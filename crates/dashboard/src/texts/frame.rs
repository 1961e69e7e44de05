//! What every page, or several of them, have.

use super::texts;

texts! {
    /// The names of the parts of the console.
    Nav {
        overview = "Overview";
        traces = "Traces";
        playground = "Playground";
        models = "Models";
        routing = "Routing";
        keys = "Keys";
        limits = "Limits";
        safety = "Safety";
        insights = "Insights";
        jobs = "Jobs";
        people = "People";
        audit = "Audit";
        settings = "Settings";
        account = "Your account";
    }
}

texts! {
    /// The surroundings of every page.
    Frame {
        skip = "Skip to content";
        project = "Project";
        show = "Show";
        console = "Console";
        account_of(role) = "Your account ({role})";
        sign_out = "Sign out";
        no_project = "You are a member of no project: an admin or owner can change that.";
        make_project[call] = "There is no project to show: make one by {call} of the API.";
    }
}

texts! {
    /// Words of several pages.
    Words {
        actions = "Actions";
        all_settings = "All settings as JSON";
        clear = "Clear";
        clear_all = "clear them all";
        copy = "Copy";
        csv_of(list) = "CSV: {list}";
        enter_again = "It is not sent back: enter it again";
        file_is_cut(rows) = "The file ends here: it has the first {rows} rows of the list, which has more.";
        filter = "Filter";
        first_page = "First page";
        from_utc = "From (UTC)";
        never = "never";
        next_page = "Next page";
        no_more_rows = "The list has no rows from here on.";
        none = "none";
        once_too_long = "The one-time value of a form has at most 64 characters.";
        pages = "Pages";
        pause = "Pause updates";
        resume = "Resume updates";
        remove = "Remove";
        save = "Save";
        save_table = "CSV";
        sent_and_runs = "This was sent before, and its call still runs. Sent once more from this page, it is another call.";
        sent_without_answer = "This was sent before, and its answer was stopped or not kept: the traces have its call. Sent once more from this page, it is another call.";
        to_utc = "To (UTC)";
        to_console = "To the console";
        personal_data = "personal data";
        injection = "injection";
        secret = "secret";
        done = "Done:";
        to_do = "To do:";
    }
}

texts! {
    /// What the script writes. It has these texts from attributes: of its own element, and of the parts of a page
    /// that it serves.
    Script {
        copied = "Copied";
        help = "/  search traces\ng o  overview\ng t  traces\ng k  keys\ng m  models\ng p  playground\ng j  jobs\n?  this help";
        help_title = "Keyboard shortcuts";
        close = "Close";
        session_over = "Your session is over: sign in again.";
        passkey_refused = "The passkey was refused.";
        passkey_known = "This device has a passkey of yours already.";
        passkey_not_chosen = "No passkey was chosen, or it took too long.";
    }
}
