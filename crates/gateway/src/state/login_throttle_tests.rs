use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp(1_000 * MINUTE + seconds * 1_000_000)
}

fn trying(who: std::result::Result<i64, &str>, address: u32) -> Trying<'_> {
    Trying { who: who.map(|user| (UserId(user), false)), network: IpAddr::V4(address.into()) }
}

fn known(user: i64, address: u32) -> Trying<'static> {
    Trying { who: Ok((UserId(user), true)), network: IpAddr::V4(address.into()) }
}

impl LoginThrottle {
    /// A wrong password.
    fn fail(&self, trying: Trying<'_>, now: Timestamp) -> Result<()> {
        self.book(trying, now).map(|mut booked| booked.stays())
    }

    /// A wrong answer of a passkey.
    fn fail_passkey(&self, trying: Trying<'_>, now: Timestamp) -> Result<()> {
        self.book_passkey(trying, now).map(|mut booked| booked.stays())
    }
}

#[test]
fn the_seventh_try_has_to_wait() {
    for who in [Ok(1), Err("a@b")] {
        let throttle = LoginThrottle::default();
        for minute in 0..6 {
            throttle.fail(trying(who, 1), at(60 * minute)).unwrap();
        }
        let wait = throttle.fail(trying(who, 2), at(60 * 6)).unwrap_err();
        assert!(matches!(wait, Error::LoginThrottled { retry_after: 540 }), "{wait:?}");
        assert!(throttle.fail(trying(Ok(2), 1), at(60 * 6)).is_err());
        throttle.fail(trying(Ok(2), 2), at(60 * 6)).unwrap();
        throttle.fail(trying(who, 1), at(60 * 15)).unwrap();
    }
}

#[test]
fn a_success_is_no_failure() {
    let throttle = LoginThrottle::default();
    for second in 0..20 {
        throttle.book(trying(Ok(1), 1), at(second)).unwrap().forgive();
        throttle.book(known(1, 2), at(second)).unwrap().forgive();
    }
}

#[test]
fn an_attempt_that_is_not_judged_is_no_failure() {
    let throttle = LoginThrottle::default();
    let link = IpAddr::V4(9.into());
    for second in 0..20 {
        for who in [Ok(1), Err("a@b")] {
            drop(throttle.book(trying(who, 1), at(second)).unwrap());
            drop(throttle.book_passkey(trying(who, 2), at(second)).unwrap());
        }
        drop(throttle.book_link(link, at(second)).unwrap());
        drop(throttle.book_sign_on(link, at(second)).unwrap());
    }
    for _ in 0..6 {
        throttle.book_link(link, at(20)).unwrap().stays();
        throttle.book_sign_on(link, at(20)).unwrap().stays();
    }
    assert!(throttle.book_link(link, at(20)).is_err());
    assert!(throttle.book_sign_on(link, at(20)).is_err());
}

#[test]
fn attempts_at_the_same_time_have_no_more_room() {
    let throttle = LoginThrottle::default();
    let booked: Vec<_> = (0..6).map(|_| throttle.book(trying(Ok(1), 1), at(0)).unwrap()).collect();
    assert!(throttle.book(trying(Ok(1), 2), at(0)).is_err());
    drop(booked);
    throttle.fail(trying(Ok(1), 2), at(0)).unwrap();
}

#[tokio::test]
async fn whoever_hangs_up_has_had_their_try() {
    let throttle = LoginThrottle::default();
    for _ in 0..6 {
        let mut booked = throttle.book(trying(Ok(1), 1), at(0)).unwrap();
        let hashing = booked.during(std::future::pending::<()>());
        assert!(futures_util::FutureExt::now_or_never(hashing).is_none());
    }
    assert!(throttle.book(trying(Ok(1), 1), at(1)).is_err());
    let mut booked = throttle.book(trying(Ok(2), 2), at(1)).unwrap();
    booked.during(std::future::ready(())).await;
    drop(booked);
    for _ in 0..6 {
        throttle.fail(trying(Ok(2), 2), at(1)).unwrap();
    }
}

#[test]
fn one_right_step_makes_no_room_for_more_wrong_ones() {
    let throttle = LoginThrottle::default();
    for second in 0..6 {
        throttle.fail(known(1, 1), at(2 * second)).unwrap();
        if second < 5 {
            drop(throttle.book(known(1, 1), at(2 * second + 1)).unwrap());
        }
    }
    assert!(throttle.fail(known(1, 1), at(20)).is_err());
}

#[test]
fn strangers_lock_out_strangers_only() {
    let throttle = LoginThrottle::default();
    for address in 100..106 {
        throttle.fail(trying(Ok(1), address), at(0)).unwrap();
    }
    assert!(throttle.fail(trying(Ok(1), 106), at(1)).is_err(), "strangers share a count");
    for second in 0..6 {
        throttle.fail(known(1, 1), at(second)).unwrap();
    }
    assert!(throttle.fail(known(1, 1), at(7)).is_err(), "a known address has six as well");
    // From another known address the owner gets in, and no other address gains access.
    throttle.book(known(1, 2), at(8)).unwrap().forgive();
    assert!(throttle.fail(trying(Ok(1), 107), at(9)).is_err());
    assert!(throttle.fail(known(1, 1), at(9)).is_err());
}

#[test]
fn wrong_passwords_of_strangers_hold_up_no_passkey() {
    let throttle = LoginThrottle::default();
    for stranger in 100..106 {
        throttle.fail(trying(Ok(1), stranger), at(0)).unwrap();
    }
    assert!(throttle.fail(trying(Ok(1), 1), at(1)).is_err());
    throttle.book_passkey(trying(Ok(1), 1), at(1)).unwrap().forgive();
    assert!(throttle.fail(trying(Ok(1), 1), at(2)).is_err(), "a passkey forgives no password");
    assert!(throttle.fail_passkey(trying(Ok(1), 100), at(2)).is_ok());
    for address in 200..205 {
        throttle.fail_passkey(trying(Ok(1), address), at(3)).unwrap();
    }
    assert!(throttle.fail_passkey(trying(Ok(1), 206), at(4)).is_err());
}

#[test]
fn a_clock_that_went_back_locks_nobody_out_for_long() {
    let throttle = LoginThrottle::default();
    let year = 365 * 24 * 3600;
    for _ in 0..6 {
        throttle.fail(trying(Ok(1), 1), at(year)).unwrap();
    }
    assert!(throttle.fail(trying(Ok(1), 1), at(0)).is_err());
    throttle.fail(trying(Ok(1), 1), at(15 * 60)).unwrap();
}

#[test]
fn a_flood_hides_nobody() {
    let throttle = LoginThrottle::default();
    for _ in 0..6 {
        throttle.fail(trying(Ok(1), 1), at(0)).unwrap();
    }
    let most = u32::try_from(WATCHED).unwrap();
    for n in 2..3 * most {
        throttle.fail(trying(Err(&format!("{n}@b")), n), at(1)).unwrap();
    }
    let all = lock(&throttle.0);
    assert!(all.strangers.newer.len() + all.strangers.older.len() <= WATCHED);
    assert!(all.networks.newer.len() + all.networks.older.len() <= WATCHED);
    drop(all);
    assert!(throttle.fail(trying(Ok(1), most * 4), at(2)).is_err(), "an account is remembered");
    for _ in 0..6 {
        throttle.fail(trying(Err("one@b"), 7), at(3)).unwrap();
    }
    assert!(throttle.fail(trying(Err("one@b"), 8), at(4)).is_err(), "so is who comes now");
}

#[test]
fn a_reader_is_sent_a_few_letters_from_wherever_they_are_asked_for() {
    let throttle = LoginThrottle::default();
    let now = Timestamp(0);
    let ask =
        |last: u8, reader: &str| throttle.book_letter([203, 0, 113, last].into(), reader, now);
    for last in 0..6 {
        ask(last, "reader@example.org").unwrap();
    }
    assert!(ask(7, "reader@example.org").is_err());
    ask(7, "other@example.org").unwrap();
    // The letters that strangers ask for do not count for the reader's own.
    throttle.book_own_letter(UserId(1), now).unwrap();
}

#[test]
fn attempts_that_overtake_each_other_leave_no_failure() {
    let throttle = LoginThrottle::default();
    let link = IpAddr::V4(9.into());
    for second in 0..20 {
        // Its time was read later, and it is booked first.
        let first = throttle.book(trying(Ok(1), 1), at(100 - second)).unwrap();
        let then = throttle.book(trying(Ok(1), 1), at(99 - second)).unwrap();
        drop((first, then));
        let first = throttle.book_link(link, at(100 - second)).unwrap();
        drop(throttle.book_link(link, at(99 - second)).unwrap());
        drop(first);
    }
    for _ in 0..6 {
        throttle.fail(trying(Ok(1), 1), at(100)).unwrap();
        throttle.book_link(link, at(100)).unwrap().stays();
    }
    assert!(throttle.fail(trying(Ok(1), 1), at(100)).is_err());
    assert!(throttle.book_link(link, at(100)).is_err());
}
