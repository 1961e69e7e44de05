use std::pin::pin;
use std::sync::mpsc;
use std::task::Poll;

use futures_util::poll;

use super::*;

fn key(project: i64, key: i64) -> Share {
    Share::of_key(ProjectId(project), KeyId::from_i64(key))
}

/// Polls once: the permit, if it was given at once.
async fn now(
    taken: std::pin::Pin<&mut (impl Future<Output = Result<Place>> + ?Sized)>,
) -> Option<Place> {
    match poll!(taken) {
        Poll::Ready(place) => Some(place.unwrap()),
        Poll::Pending => None,
    }
}

type Taking<'a> = std::pin::Pin<Box<dyn Future<Output = Result<Place>> + 'a>>;

/// Waiters for permits, `each` for every share.
async fn fill<'a>(places: &'a Places, shares: &[Share], each: usize) -> Vec<Taking<'a>> {
    let mut waiting: Vec<Taking<'a>> = Vec::new();
    for _ in 0..each {
        for share in shares {
            let mut taken: Taking<'a> = Box::pin(places.take(*share));
            assert!(now(taken.as_mut()).await.is_none());
            waiting.push(taken);
        }
    }
    waiting
}

/// The number of them that were refused since.
async fn refused(waiting: &mut [Taking<'_>]) -> usize {
    let mut refused = 0;
    for taken in waiting {
        refused += usize::from(matches!(poll!(taken), Poll::Ready(Err(Error::Busy { .. }))));
    }
    refused
}

#[tokio::test]
async fn a_key_that_fills_its_projects_queue_gives_way_to_the_others() {
    let places = Places::new(1);
    let _running = places.take(key(1, 1)).await.unwrap();
    let mut full = fill(&places, &[key(2, 1)], MAX_WAITING).await;
    let mut others = fill(&places, &[key(2, 2), key(2, 3)], 100).await;
    assert_eq!(refused(&mut others).await, 0);
    assert_eq!(refused(&mut full[..MAX_WAITING - 200]).await, 0, "the newest give way");
    assert_eq!(places.queue().waiting, MAX_WAITING);
    drop((full, others));
    // If all have as many, none gives way.
    let mut all = fill(&places, &[key(2, 1), key(2, 2)], MAX_WAITING / 2).await;
    assert!(matches!(places.take(key(2, 1)).await, Err(Error::Busy { .. })));
    assert!(matches!(places.take(key(2, 2)).await, Err(Error::Busy { .. })));
    assert_eq!(refused(&mut all).await, 0);
}

#[tokio::test]
async fn projects_that_fill_the_queue_give_way_to_the_others() {
    let places = Places::new(1);
    let _running = places.take(key(1, 1)).await.unwrap();
    let shares: Vec<_> = (2..10).map(|project| key(project, 1)).collect();
    let mut full = fill(&places, &shares, MAX_WAITING).await;
    assert_eq!(places.queue().waiting, MAX_WAITING_IN_ALL);
    let mut others = fill(&places, &[key(20, 1), key(21, 1)], 8).await;
    assert_eq!(refused(&mut others).await, 0);
    assert!(matches!(places.take(key(2, 1)).await, Err(Error::Busy { .. })));
    assert_eq!(refused(&mut full).await, 16);
    assert_eq!(places.queue().waiting, MAX_WAITING_IN_ALL);
}

#[tokio::test]
async fn work_that_is_paid_for_gives_way_to_nobody() {
    let places = Places::new(1);
    let running = places.take(key(1, 1)).await.unwrap();
    let mut paid = Vec::new();
    for _ in 0..MAX_WAITING {
        let mut taken = Box::pin(places.take_always(key(2, 1)));
        assert!(poll!(taken.as_mut()).is_pending());
        paid.push(taken);
    }
    assert!(matches!(places.take(key(2, 2)).await, Err(Error::Busy { .. })));
    drop(running);
    let mut given = 0;
    for taken in paid {
        given += usize::from(taken.await.is_some());
    }
    assert_eq!(given, MAX_WAITING);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn long_work_holds_up_nobody() {
    // Nothing that this test waits for takes longer, on however slow a machine.
    let deadline = Duration::from_mins(1);
    let (sender, receiver) = mpsc::channel();
    let long = offload(Share::of_control(), LONG_TEXT + 1, || {
        let other = Handle::current().spawn(async move { sender.send("served").unwrap() });
        (receiver.recv_timeout(deadline), other)
    });
    let (received, other) = long.await.unwrap();
    assert_eq!(received, Ok("served"));
    other.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn judging_ends_when_its_caller_hangs_up() {
    let (begun, judging) = oneshot::channel();
    let (waits, request) = crate::capacity::hang_up::until_hang_up(async {
        let judge = |give_up: GiveUp<'_>| {
            begun.send(()).unwrap();
            let GiveUp::All(has_left) = give_up else { panic!("nothing is given up") };
            while !has_left() {
                std::thread::yield_now();
            }
        };
        offload_judging(Share::of_control(), LONG_TEXT + 1, judge).await
    });
    let request = Handle::current().spawn(request);
    judging.await.unwrap();
    drop(waits);
    assert!(matches!(request.await.unwrap(), Err(Error::Busy { .. })));
}

#[tokio::test]
async fn a_project_never_has_all_places() {
    let places = Places::new(2);
    let first = places.take(key(1, 1)).await.unwrap();
    let mut second = pin!(places.take(key(1, 2)));
    assert!(now(second.as_mut()).await.is_none());
    let other = places.take(key(2, 1)).await.unwrap();
    drop(first);
    assert!(now(second.as_mut()).await.is_some());
    drop(other);
}

#[tokio::test]
async fn places_go_round_the_projects_and_their_keys() {
    let places = Places::new(1);
    let running = places.take(key(9, 9)).await.unwrap();
    let order = [key(1, 1), key(1, 1), key(1, 1), key(1, 2), key(2, 1), key(3, 1), key(3, 1)];
    let mut waiting: Vec<_> = Vec::new();
    for share in order {
        let mut taken = Box::pin(places.take(share));
        assert!(now(taken.as_mut()).await.is_none());
        waiting.push((share, taken));
    }
    let mut running = Some(running);
    let mut served = Vec::new();
    while !waiting.is_empty() {
        drop(running.take());
        for at in 0..waiting.len() {
            if let Some(place) = now(waiting[at].1.as_mut()).await {
                served.push(waiting.remove(at).0);
                running = Some(place);
                break;
            }
        }
    }
    let expected = [key(1, 1), key(2, 1), key(3, 1), key(1, 2), key(3, 1), key(1, 1), key(1, 1)];
    assert_eq!(served, expected);
    drop(running);
    assert_eq!(places.queue().free, 1);
}

#[tokio::test]
async fn a_caller_who_hangs_up_leaves_the_queue() {
    let places = Places::new(1);
    let running = places.take(key(1, 1)).await.unwrap();
    let mut gone = fill(&places, &[key(2, 1)], MAX_WAITING).await;
    assert!(
        matches!(places.take(key(2, 1)).await, Err(Error::Busy { .. })),
        "no more of one project"
    );
    let mut stays = pin!(places.take(key(3, 1)));
    assert!(now(stays.as_mut()).await.is_none());
    gone.truncate(1);
    assert_eq!(places.queue().waiting, 2);
    // The permit goes to the waiter that stays, also after it was sent to one that left since.
    drop(running);
    drop(gone);
    assert!(now(stays.as_mut()).await.is_some());
    let queue = places.queue();
    assert_eq!((queue.free, queue.waiting), (1, 0));
    assert!(queue.lanes.is_empty() && queue.running.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_wait_has_an_end() {
    let places = Places::new(1);
    let running = places.take(key(1, 1)).await.unwrap();
    assert!(matches!(places.take(key(2, 1)).await, Err(Error::Busy { .. })));
    assert_eq!(places.queue().waiting, 0);
    drop(running);
    assert_eq!(places.queue().free, 1);
}

#[test]
fn work_that_nobody_waits_for_takes_a_free_permit_or_none() {
    let places = Places::new(2);
    let held = places.try_take(Share::of_control()).expect("a permit is free");
    assert!(places.try_take(Share::of_control()).is_none(), "nobody has all permits");
    assert!(places.try_take(key(1, 1)).is_some(), "the other is for others");
    drop(held);
    assert!(places.try_take(Share::of_control()).is_some());
}
