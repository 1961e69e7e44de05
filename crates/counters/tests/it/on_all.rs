//! Runs the tests of a suite on all that counts. The module of the suite has `memory()`, and `shared()` for a Redis with
//! a number of which no two tests share one, and `SPREAD`: the keys in Redis, and how many of three masters have some.

macro_rules! on_all {
    ($($test:ident),+ $(,)?) => {
        mod in_memory {
            $(#[tokio::test]
            async fn $test() {
                super::$test(super::memory()).await;
            })+
        }

        mod alone {
            $(#[tokio::test]
            async fn $test() {
                if super::is_there() {
                    let redis = super::Redis::alone().await;
                    super::$test(super::shared(&redis, 7).await).await;
                }
            })+
        }

        mod cluster {
            #[tokio::test]
            async fn of_three_masters() {
                if super::is_there() {
                    let redis = super::Redis::cluster().await;
                    let mut number = 0;
                    $(
                        number += 1;
                        super::$test(super::shared(&redis, number).await).await;
                    )+
                    let (keys, masters) = super::SPREAD;
                    assert_eq!(redis.masters_with(keys).await, masters, "{number} tests");
                }
            }
        }
    };
}
