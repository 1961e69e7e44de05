//! The user's own account.

use super::texts;

texts! {
    /// The user's own account.
    Account {
        title = "Your account";
        set_factor_up = "Your organization requires a second factor: set one up here, then go on.";
        recovery_codes = "Recovery codes";
        keep_codes = "Keep them where you find them without your second factor. Each signs in once in its place; they are not shown again.";
        own_password = "Your password";
        unknown = "unknown";

        second_factor = "Second factor";
        scan = "Scan this with an authenticator app, or type the secret, and enter the code that it shows.";
        qr_code = "QR code of the secret";
        code_of_authenticator = "Code of the authenticator";
        confirm = "Confirm";
        cancel = "Cancel";
        has_authenticator = "An authenticator is set up: sign-in asks for its code.";
        passkeys_are_factor = "Your passkeys are your second factor. An authenticator app can be one beside them.";
        about_authenticator = "An authenticator app on your phone shows a code that changes every 30 seconds; sign-in asks for it after the password.";
        set_authenticator_up = "Set up an authenticator";
        codes_left{count} = {
            1 => "{count} of them is left. New ones take their place.",
            _ => "{count} of them are left. New ones take their place.",
        };
        any_code = "Code of the authenticator, or a recovery code";
        recovery_code = "A recovery code";
        make_codes = "Make new codes";
        factor_is_required = "Your organization requires a second factor: an owner can reset yours.";
        remove_factors = "Remove all second factors";
        remove_all = "Remove all";
        about_removal = "Passkeys too: your password alone signs in from then on.";

        passkeys = "Passkeys";
        about_passkeys = "A passkey signs you in by the lock of your device, without a password or a code.";
        added_and_used[added, used] = "Added {added}, last used {used}";
        added_and_unused[added] = "Added {added}, not used yet";
        remove_passkey(name) = "Remove the passkey {name}";
        remove_it = "Remove it";
        name_of_passkey = "Name of a new passkey";
        passkey_example = "Laptop";
        add_passkey = "Add a passkey";
        needs_script = "Browsers make passkeys for scripts alone.";
        not_in_browser = "This browser cannot make one here.";
        passkey_is_added = "The passkey is added. Keep these codes where you find them without it: each stands once for a second factor. They are not shown again.";
        done = "Done";
        no_passkeys[setting] = "This gateway can have none: they need an address with a host name, by which {setting} names it.";

        password = "Password";
        old_password = "Your password of today";
        new_password = "A new one, of 8 characters at least";
        change_it = "Change it";
        other_sessions_end = "Your other sessions end.";
        no_password = "You sign in without a password. A link to a new one sets the first.";
        sign_in_with(provider) = "Sign in again with {provider}";
        needs_late_sign_in[sign_in] = "{sign_in}: changes on this page need a sign-in of the last ten minutes.";

        sign_on = "Single sign-on";
        known_as[email, time] = "As {email}, since {time}";
        unlink = "Unlink";
        unlink_issuer(issuer) = "Unlink {issuer}";
        unlink_it = "Unlink it";
        about_unlinking = "It signs you in no more, and your other sessions end.";

        email = "E-mail";
        verified[time] = "Verified {time}.";
        not_verified = "Not verified yet.";
        send_letter = "Send a letter with a link";
        cannot_verify = "Not verified: this gateway has no mail server.";

        sessions = "Sessions";
        client = "Client";
        address = "Address";
        signed_in = "Signed in";
        last_seen = "Last seen";
        this_session = "this one";
        end_session_from(address) = "End the session from {address}";
        end_session_from_unknown = "End the session from an unknown address";
        end = "End";
    }
}
