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
        rules = "Rules, one a line: group = role, projects";
        rule_example = "engineering = member 1 2";
        no_rule = "A rule is a line such as: engineering = member 1 2";
        trusts_factor = "Its second factor counts";
        save(provider) = "Save {provider}";
        asks_to_remove(provider) = "Remove {provider}? The sessions that came by it end.";
        remove_provider(provider) = "Remove {provider}";
        new = "A new provider";
        add = "Add";
        about_rules = "The first rule whose group a person has gives role (admin, member, viewer) and projects, by number. Values are compared as they are.";
    }
}
