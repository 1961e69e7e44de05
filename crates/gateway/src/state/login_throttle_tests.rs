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

fn alone() -> LoginThrottle {
    LoginThrottle::new(&[7; 32], None)
}

impl LoginThrottle {
    /// A wrong password.
    async fn fail(&self, trying: Trying<'_>, now: Timestamp) -> Result<()> {
        self.book(trying, now).await.map(|mut booked| booked.stays())
    }

    /// A wrong answer of a passkey.
    async fn fail_passkey(&self, trying: Trying<'_>, now: Timestamp) -> Result<()> {
        self.book_passkey(trying, now).await.map(|mut booked| booked.stays())
    }
}

#[tokio::test]
async fn the_seventh_try_has_to_wait() {
    for who in [Ok(1), Err("a@b")] {
        let throttle = alone();
        for minute in 0..6 {
            throttle.fail(trying(who, 1), at(60 * minute)).await.unwrap();
        }
        let wait = throttle.fail(trying(who, 2), at(60 * 6)).await.unwrap_err();
        assert!(matches!(wait, Error::LoginThrottled { retry_after: 540 }), "{wait:?}");
        assert!(throttle.fail(trying(Ok(2), 1), at(60 * 6)).await.is_err());
        throttle.fail(trying(Ok(2), 2), at(60 * 6)).await.unwrap();
        throttle.fail(trying(who, 1), at(60 * 15)).await.unwrap();
    }
}

#[tokio::test]
async fn a_success_is_no_failure() {
    let throttle = alone();
    for second in 0..20 {
        throttle.book(trying(Ok(1), 1), at(second)).await.unwrap().forgive().await;
        throttle.book(known(1, 2), at(second)).await.unwrap().forgive().await;
    }
}

#[tokio::test]
async fn an_attempt_that_is_not_judged_is_no_failure() {
    let throttle = alone();
    let link = IpAddr::V4(9.into());
    for second in 0..20 {
        for who in [Ok(1), Err("a@b")] {
            drop(throttle.book(trying(who, 1), at(second)).await.unwrap());
            drop(throttle.book_passkey(trying(who, 2), at(second)).await.unwrap());
        }
        drop(throttle.book_link(link, at(second)).await.unwrap());
        drop(throttle.book_sign_on(link, at(second)).await.unwrap());
    }
    for _ in 0..6 {
        throttle.book_link(link, at(20)).await.unwrap().stays();
        throttle.book_sign_on(link, at(20)).await.unwrap().stays();
    }
    assert!(throttle.book_link(link, at(20)).await.is_err());
    assert!(throttle.book_sign_on(link, at(20)).await.is_err());
}

#[tokio::test]
async fn attempts_at_the_same_time_have_no_more_room() {
    let throttle = alone();
    let mut booked = Vec::new();
    for _ in 0..6 {
        booked.push(throttle.book(trying(Ok(1), 1), at(0)).await.unwrap());
    }
    assert!(throttle.book(trying(Ok(1), 2), at(0)).await.is_err());
    drop(booked);
    throttle.fail(trying(Ok(1), 2), at(0)).await.unwrap();
}

#[tokio::test]
async fn whoever_hangs_up_has_had_their_try() {
    let throttle = alone();
    for _ in 0..6 {
        let mut booked = throttle.book(trying(Ok(1), 1), at(0)).await.unwrap();
        let hashing = booked.during(std::future::pending::<()>());
        assert!(futures_util::FutureExt::now_or_never(hashing).is_none());
    }
    assert!(throttle.book(trying(Ok(1), 1), at(1)).await.is_err());
    let mut booked = throttle.book(trying(Ok(2), 2), at(1)).await.unwrap();
    booked.during(std::future::ready(())).await;
    drop(booked);
    for _ in 0..6 {
        throttle.fail(trying(Ok(2), 2), at(1)).await.unwrap();
    }
}

#[tokio::test]
async fn one_right_step_makes_no_room_for_more_wrong_ones() {
    let throttle = alone();
    for second in 0..6 {
        throttle.fail(known(1, 1), at(2 * second)).await.unwrap();
        if second < 5 {
            drop(throttle.book(known(1, 1), at(2 * second + 1)).await.unwrap());
        }
    }
    assert!(throttle.fail(known(1, 1), at(20)).await.is_err());
}

#[tokio::test]
async fn strangers_lock_out_strangers_only() {
    let throttle = alone();
    for address in 100..106 {
        throttle.fail(trying(Ok(1), address), at(0)).await.unwrap();
    }
    assert!(throttle.fail(trying(Ok(1), 106), at(1)).await.is_err(), "strangers share a count");
    for second in 0..6 {
        throttle.fail(known(1, 1), at(second)).await.unwrap();
    }
    assert!(throttle.fail(known(1, 1), at(7)).await.is_err(), "a known address has six as well");
    // From another known address the owner gets in, and no other address gains access.
    throttle.book(known(1, 2), at(8)).await.unwrap().forgive().await;
    assert!(throttle.fail(trying(Ok(1), 107), at(9)).await.is_err());
    assert!(throttle.fail(known(1, 1), at(9)).await.is_err());
}

#[tokio::test]
async fn wrong_passwords_of_strangers_hold_up_no_passkey() {
    let throttle = alone();
    for stranger in 100..106 {
        throttle.fail(trying(Ok(1), stranger), at(0)).await.unwrap();
    }
    assert!(throttle.fail(trying(Ok(1), 1), at(1)).await.is_err());
    throttle.book_passkey(trying(Ok(1), 1), at(1)).await.unwrap().forgive().await;
    assert!(
        throttle.fail(trying(Ok(1), 1), at(2)).await.is_err(),
        "a passkey forgives no password"
    );
    assert!(throttle.fail_passkey(trying(Ok(1), 100), at(2)).await.is_ok());
    for address in 200..205 {
        throttle.fail_passkey(trying(Ok(1), address), at(3)).await.unwrap();
    }
    assert!(throttle.fail_passkey(trying(Ok(1), 206), at(4)).await.is_err());
}

#[tokio::test]
async fn a_clock_that_went_back_locks_nobody_out_for_long() {
    let throttle = alone();
    let year = 365 * 24 * 3600;
    for _ in 0..6 {
        throttle.fail(trying(Ok(1), 1), at(year)).await.unwrap();
    }
    assert!(throttle.fail(trying(Ok(1), 1), at(0)).await.is_err());
    throttle.fail(trying(Ok(1), 1), at(15 * 60)).await.unwrap();
}

#[tokio::test]
async fn a_flood_hides_nobody() {
    let throttle = alone();
    for _ in 0..6 {
        throttle.fail(trying(Ok(1), 1), at(0)).await.unwrap();
    }
    let most = u32::try_from(RULE.watched).unwrap();
    for n in 2..3 * most {
        throttle.fail(trying(Err(&format!("{n}@b")), n), at(1)).await.unwrap();
    }
    for kind in [kind::STRANGER, kind::NETWORK] {
        assert!(lock(&throttle.here).failures.watched(kind) <= RULE.watched);
    }
    assert!(
        throttle.fail(trying(Ok(1), most * 4), at(2)).await.is_err(),
        "an account is remembered"
    );
    for _ in 0..6 {
        throttle.fail(trying(Err("one@b"), 7), at(3)).await.unwrap();
    }
    assert!(throttle.fail(trying(Err("one@b"), 8), at(4)).await.is_err(), "so is who comes now");
}

#[tokio::test]
async fn a_reader_is_sent_a_few_letters_from_wherever_they_are_asked_for() {
    let throttle = alone();
    let now = Timestamp(0);
    let ask = async |last: u8, reader: &str| {
        throttle.book_letter([203, 0, 113, last].into(), reader, now).await
    };
    for last in 0..6 {
        ask(last, "reader@example.org").await.unwrap();
    }
    assert!(ask(7, "reader@example.org").await.is_err());
    ask(7, "other@example.org").await.unwrap();
    // The letters that strangers ask for do not count for the reader's own.
    throttle.book_own_letter(UserId(1), now).await.unwrap();
}

#[tokio::test]
async fn attempts_that_overtake_each_other_leave_no_failure() {
    let throttle = alone();
    let link = IpAddr::V4(9.into());
    for second in 0..20 {
        // Its time was read later, and it is booked first.
        let first = throttle.book(trying(Ok(1), 1), at(100 - second)).await.unwrap();
        let then = throttle.book(trying(Ok(1), 1), at(99 - second)).await.unwrap();
        drop((first, then));
        let first = throttle.book_link(link, at(100 - second)).await.unwrap();
        drop(throttle.book_link(link, at(99 - second)).await.unwrap());
        drop(first);
    }
    for _ in 0..6 {
        throttle.fail(trying(Ok(1), 1), at(100)).await.unwrap();
        throttle.book_link(link, at(100)).await.unwrap().stays();
    }
    assert!(throttle.fail(trying(Ok(1), 1), at(100)).await.is_err());
    assert!(throttle.book_link(link, at(100)).await.is_err());
}
