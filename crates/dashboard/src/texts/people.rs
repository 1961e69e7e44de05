//! People, and the ways in which they sign in.

use super::texts;

texts! {
    /// Providers of single sign-on.
    SignOn {
        title = "Single sign-on";
        register[callback, sign_in] = "At the provider, register {callback} as redirect address, and {sign_in} for signing out.";
        set_address[setting] = "Set {setting}, the address of this gateway for browsers, first.";
        name = "Name";
        slug = "Name in addresses";
        issuer = "Issuer";
        client_id = "Client id";
        client_secret = "Client secret";
        client_secret_set = "Client secret (empty: as it is)";
        scopes = "Scopes";
        groups_claim = "Claim of the groups";
        is_old = "The provider has changed since this page was loaded: its form shows it as it is now, without your change";
        rules = "Rules, one a line: group = role, projects";
        rule_example = "engineering = member 1 2";
        no_rule = "A rule is a line such as: engineering = member 1 2";
        trusts_factor = "Its second factor counts";
        save(provider) = "Save {provider}";
        asks_to_lead_elsewhere(provider, sessions) = "Change the issuer or client of {provider}? The sessions that came by it end, {sessions} now.";
        asks_to_remove(provider, sessions) = "Remove {provider}? The sessions that came by it end, {sessions} now.";
        remove_provider(provider) = "Remove {provider}";
        new = "A new provider";
        add = "Add";
        about_rules = "The first rule whose group a person has gives role (admin, member, viewer) and projects, by number. Values are compared as they are.";
    }
}

texts! {
    /// The people of an organization.
    People {
        title = "People";
        hand_over(time) = "Hand this link to the person: it is good once, for {time}, and is not shown again.";
        is_sent(time) = "It is on its way by letter, and good for {time}.";
        invitation_of(email) = "The invitation of {email}";
        link_to_password = "A link to a new password";
        ways_have_ended = "Every way in has ended. A link to a new password";
        three_days = "72 hours";
        an_hour = "an hour";

        email_of_new = "E-mail of a new person";
        role = "Role";
        projects = "Projects, by number";
        no_projects = "Projects are numbers with commas between them, such as 1, 2";
        invite = "Invite";
        person = "Person";
        role_and_projects = "Role and projects";
        ways_in = "Ways in";
        second_factor = "Second factor";
        last_seen = "Last seen";
        role_of(email) = "Role of {email}";
        projects_of(email) = "Projects of {email}, by number";
        save_of(email) = "Save role and projects of {email}";
        no_way_in = "none";
        password = "password";
        passkey = "passkey";
        sign_on = "single sign-on";
        has_factor = "set up";
        no_factor = "none";
        never_seen = "not signed in";
        new_password = "New password";
        new_password_for(email) = "New password for {email}";
        reset = "Reset";
        end_ways_of(email) = "Reset every way in of {email}";
        asks_to_end_ways(email) = "End every way in of {email}? Password, passkeys, second factors, single sign-on, sessions and service tokens go; a link to a new password is made.";
        reset_factor = "Reset factor";
        reset_factor_of(email) = "Reset factor of {email}";
        asks_to_reset_factor(email) = "Reset the second factor of {email}? Their authenticator, recovery codes and passkeys go, and their sessions end. They sign in with their password or by their provider, and set up a new one.";
        remove(email) = "Remove {email}";
        asks_to_remove(email) = "Remove {email}? Their sessions and service tokens end; keys that they made go on.";
        about_projects = "Owners and admins see all projects; members and viewers those that are listed.";

        invitations = "Invitations";
        no_invitation = "None is open. An invitation is good for 72 hours.";
        email = "E-mail";
        good_until = "Good until";
        withdraw = "Withdraw";
        asks_to_withdraw(email) = "Withdraw the invitation of {email}? Its link will no longer work.";
        withdraw_of(email) = "Withdraw the invitation of {email}";
    }
}

texts! {
    /// Service tokens.
    Tokens {
        title = "Service tokens";
        made(name) = "Service token {name}";
        copy_now = "Copy the secret now: it is not shown again.";
        about = "Programs manage projects, models and keys with one. It calls no model, and lets nobody in.";
        name_of_new = "Name of a new token";
        role = "Role";
        projects = "Projects, by number";
        good_for = "Good for";
        days(count) = "{count} days";
        a_year = "a year";
        no_days = "Good for must be a number of days";
        make = "Make a token";
        none_yet = "No service token yet. Make one above for a script that manages this gateway.";
        name = "Name";
        token = "Token";
        role_and_projects = "Role and projects";
        made_by = "Made by";
        last_used = "Last used";
        expires = "Expires";
        command_line = "command line";
        is_over = "(over)";
        revoke = "Revoke";
        revoke_token(name) = "Revoke {name}";
        asks_to_revoke(name) = "Revoke the token {name}? Requests with it fail from now on.";
        about_ends = "Admin tokens see all projects. A token ends when its maker is removed, has every way in ended, or is no admin or owner any more. Signing out ends none.";
    }
}
