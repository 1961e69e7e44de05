//! The pages of people who are not signed in.

use super::texts;

texts! {
    /// The pages that sign somebody in and out.
    SigningIn {
        sign_in = "Sign in";
        sign_in_to_sluice = "Sign in to Sluice";
        sign_in_with(provider) = "Sign in with {provider}";
        email = "E-mail";
        password = "Password";
        forgotten = "Forgotten your password?";
        forgotten_without_mail[command] = "Forgotten? An owner makes you a link to a new password; whoever runs this gateway sets one with {command}.";
        no_passwords[command] = "Passwords are disabled. If no provider works, whoever runs this gateway allows them with {command}.";
        second_factor = "Second factor";
        code = "Code of your authenticator, or a recovery code";
        no_code = "No code? An owner can reset your second factor.";
        several_sessions = "Your browser had several sessions here, and another host may have set one of them. All were removed: sign in again.";
        wrong_code = "The code is wrong, or was used before.";
        wrong_password = "E-mail or password is wrong.";
        with_passkey = "Sign in with a passkey";

        signed_out = "Signed out";
        signed_out_of_sluice = "You are signed out of Sluice. Your provider may still know you.";
        sign_out_of_provider = "Sign out of your provider";
        sign_in_again = "Sign in again";

        link_account = "Link your account";
        no_link_waits = "No sign-on waits to be linked, or it was begun more than ten minutes ago.";
        sign_in_first[provider, email] = "{provider} knows you as {email}, and an account with this address exists. Sign in to it the way you did before; then you can link the two.";
        sign_in_to_link = "Sign in to link";
        other_account[own, provider, email] = "You are signed in as {own}. {provider} knows you as {email}, which is another account: sign out, and sign in to that one.";
        go_on_as(own) = "Go on as {own}";
        links_from_now_on[provider, email] = "From now on, whoever signs in to {provider} as {email} signs in to this account.";
        password_to_confirm = "Your password here, to confirm";
        link_to(provider) = "Link to {provider}";
        without_password = "An account without a password leaves it empty.";
    }
}

texts! {
    /// The pages that links of letters lead to.
    Links {
        invitation = "Invitation";
        welcome = "Welcome to Sluice";
        account_waits[email] = "An account for {email} waits for you.";
        comes_by_provider = "There are no passwords here: sign in by a provider, here on this page, that knows you by this address and has verified it. Your account is made then.";
        your_name = "Your name";
        a_password = "A password, of 8 characters at least";
        make_account = "Make the account";

        forgotten = "Forgotten password";
        look_into_mail = "Look into your mail";
        letter_is_on_its_way = "If the address has an account, a letter with a link is on its way. The link is good for an hour.";
        a_new_password = "A new password";
        email_of_account = "E-mail of your account";
        send_link = "Send a link";

        new_password = "New password";
        password_is_set = "The password is set";
        sessions_have_ended = "All sessions of the account have ended.";
        sessions_end[email] = "For {email}. All sessions of the account end.";
        password = "Password, of 8 characters at least";
        set_password = "Set the password";

        your_address = "Your address";
        address_is_verified = "The address is verified";
        is_your_address = "Is this your address?";
        verify_address = "Verify the address";

        not_good = "The link is not good";
    }
}

texts! {
    /// Pages that cannot be shown.
    Failures {
        status(number) = "Status {number}";
        back = "Back to the overview";
        forbidden = "Your role does not allow this, or the request came from another page. An admin or owner can do it.";
        not_found = "It does not exist, its retention is over, or it is in a project that you do not see.";
        malformed = "Go back, change what the message names, and try again.";
        too_many = "Wait a little, and try again.";
        unavailable = "The gateway is busy or cannot reach its database. Try again in a few seconds.";
        other = "The gateway's log says more, under the id in the header X-Request-Id.";
    }
}
