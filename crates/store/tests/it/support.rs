//! A fresh database of either kind, and things to put into it.

use std::sync::Arc;

use domain::attributes::Attributes;
use domain::ids::{KeyId, ProjectId, StepId, TraceId, UserId};
use domain::model::Provider;
use domain::money::{Prices, Usd};
use domain::secret::Secret;
use domain::step::{AnswerShape, ApiEndpoint, Call, Routing, Security, Step, StepKind, StepStatus};
use domain::tier::{Intent, Tier};
use domain::time::{Clock, Timestamp};
use domain::trace::{Trace, TraceStatus};
use domain::trace_context::TraceContext;
use domain::usage::Usage;
use sqlx::{Connection, Executor, PgConnection, SqliteConnection};
use store::{Claim, Location, NewSession, Options, SealingKey, Store};

/// A database that can be closed and opened again.
pub struct Database {
    pub location: Location,
    pub clock: Clock,
    pub kind: &'static str,
    _folder: tempfile::TempDir,
}

pub const NOW: Timestamp = Timestamp(1_795_000_000_000_000);

impl Database {
    pub async fn open(&self) -> Store {
        self.try_open([7; 32], Claim::Serve).await.unwrap()
    }

    pub async fn try_open(&self, key: [u8; 32], claim: Claim) -> store::Result<Store> {
        let master = SealingKey::master(&key).unwrap();
        let (location, clock) = (self.location.clone(), self.clock.clone());
        Store::open(Options { location, master, claim, clock }).await
    }
}

impl Database {
    /// Changes the rows or the schema behind the back of the store.
    pub async fn execute(&self, statements: &'static str) {
        match &self.location {
            Location::Sqlite(path) => {
                let url = format!("sqlite://{}", path.display());
                let mut db = SqliteConnection::connect(&url).await.unwrap();
                sqlx::raw_sql(statements).execute(&mut db).await.unwrap();
            }
            Location::Postgres(url) | Location::Pooled { direct: url, .. } => {
                let mut db = PgConnection::connect(url.expose()).await.unwrap();
                sqlx::raw_sql(statements).execute(&mut db).await.unwrap();
            }
        }
    }

    /// The texts that a query finds, regardless of how the store reads its rows.
    pub async fn texts(&self, query: &'static str) -> Vec<String> {
        match &self.location {
            Location::Sqlite(path) => {
                let url = format!("sqlite://{}", path.display());
                let mut db = SqliteConnection::connect(&url).await.unwrap();
                sqlx::query_scalar(query).fetch_all(&mut db).await.unwrap()
            }
            Location::Postgres(url) | Location::Pooled { direct: url, .. } => {
                let mut db = PgConnection::connect(url.expose()).await.unwrap();
                sqlx::query_scalar(query).fetch_all(&mut db).await.unwrap()
            }
        }
    }
}

/// One fresh database of each kind that is at hand.
pub async fn databases() -> Vec<Database> {
    let folder = || tempfile::tempdir().unwrap();
    let fresh = |location, kind, folder| Database {
        location,
        clock: Clock::fixed(NOW),
        kind,
        _folder: folder,
    };
    let sqlite = folder();
    let path = sqlite.path().join("sluice.db");
    let mut all = vec![fresh(Location::Sqlite(path), "sqlite", sqlite)];
    let server = std::env::var("SLUICE_TEST_PG");
    let is_needed = std::env::var_os("SLUICE_TEST_ALL").is_some();
    assert!(server.is_ok() || !is_needed, "SLUICE_TEST_ALL is set, and SLUICE_TEST_PG is not");
    if let Ok(server) = server {
        let url = fresh_postgres(&server).await;
        all.push(fresh(Location::Postgres(Secret::new(url)), "postgres", folder()));
        if let Ok(pooler) = std::env::var("SLUICE_TEST_POOLER") {
            let direct = fresh_postgres(&server).await;
            let name = direct.rsplit_once('/').unwrap().1;
            let pooler = Secret::new(format!("{}/{name}", pooler.rsplit_once('/').unwrap().0));
            let location = Location::Pooled { pooler, direct: Secret::new(direct) };
            all.push(fresh(location, "pooled", folder()));
        }
    }
    all
}

async fn fresh_postgres(server: &str) -> String {
    // A server outlives many runs, and process numbers come again.
    let name = format!("store_{:032x}", u128::from_be_bytes(store::random().unwrap()));
    let mut admin = PgConnection::connect(server).await.unwrap();
    let sql = format!("CREATE DATABASE {name}");
    admin.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(sql))).await.unwrap();
    let (base, _) = server.rsplit_once('/').unwrap();
    format!("{base}/{name}")
}

/// An organization with one project; its data key seals contents.
pub async fn project(store: &Store) -> (ProjectId, SealingKey) {
    let mut tx = store.begin().await.unwrap();
    let org = tx.add_org("Org", NOW).await.unwrap();
    let project = tx.add_project(org, "Project", None, NOW).await.unwrap();
    let key = store.add_data_key(&mut tx, project, NOW).await.unwrap();
    tx.commit().await.unwrap();
    (project, key)
}

/// A session that begins now.
pub fn session(token_hash: &[u8; 32], user: UserId) -> NewSession<'_> {
    NewSession {
        token_hash,
        user,
        awaits_factor: false,
        provider: None,
        has_factor: false,
        address: "::1",
        user_agent: "curl\u{0}",
        at: NOW,
    }
}

pub fn trace_id(number: u128) -> TraceId {
    TraceId(uuid::Uuid::from_u128(TraceId::first_at(NOW).0.as_u128() + number))
}

pub fn trace(project: ProjectId, number: u128) -> Trace {
    Trace {
        id: trace_id(number),
        project,
        key: Some(KeyId(u64::MAX - 1)),
        status: TraceStatus::Pending,
        created_at: NOW,
        completed_at: None,
        metadata: Some(serde_json::json!({"nul": "\u{0}", "smile": "🙂"})),
        revenue: Some(Usd(5)),
        assessment: None,
        work: None,
        purged: None,
    }
}

/// A run step with every field set to something that must come back.
pub fn run(project: ProjectId, trace: TraceId, id: StepId) -> Step {
    let prices = Prices {
        input: Usd(1_000_000),
        output: Usd(2_000_000),
        cached_input: Usd(100_000),
        cache_write: Usd(1_250_000),
        cache_write_1h: Usd(2_000_000),
    };
    let usage = Usage {
        prompt: 100,
        cached: 10,
        cache_write: 5,
        cache_write_1h: 3,
        completion: 50,
        reasoning: 7,
        ..Usage::default()
    };
    Step {
        id,
        trace,
        project,
        key: Some(KeyId(u64::MAX - 1)),
        kind: StepKind::Run,
        parent: Some(StepId(1)),
        source: Some(StepId(2)),
        trace_context: TraceContext::parse(
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ),
        attributes: Some(Arc::new(Attributes {
            user: Some("jane".to_owned()),
            session: None,
            tags: [("team".to_owned(), "red".to_owned())].into(),
        })),
        api_endpoint: ApiEndpoint::Chat,
        status: StepStatus::Completed,
        reason: None,
        error: Some("NUL \u{0} here".to_owned()),
        started_at: NOW.minus_micros(2_000),
        finished_at: NOW,
        routing: Some(Routing {
            tier: Some(Tier::Complex),
            classified: Tier::Simple,
            complexity: 0.25,
            intent: Intent::Code,
            reasons: vec!["short".to_owned()],
        }),
        security: Security {
            pii: true,
            injection: false,
            secret: false,
            review: true,
            risk_score: 0.5,
            findings: Some(serde_json::json!([{"type": "EMAIL"}])),
        },
        call: Some(Call {
            upstream_model: Some("m-2026".to_owned()),
            infrastructure: "private".to_owned(),
            attempts: 2,
            usage,
            prices: Some(prices),
            cost: prices.cost(&usage),
            cost_estimated: true,
            first_token: Some(900),
            finish: Some(domain::step::FinishReason::Length),
            input_fingerprint: Some(-5),
            output_fingerprint: Some(6),
            answer: Some(AnswerShape { characters: 7, language: "de".into(), refuses: true }),
            similarity: Some(0.75),
            ..Call::of("m".to_owned(), Provider::Openai)
        }),
        user_rating: Some(0.5),
    }
}

/// Numbers that look random and are the same for the same seed.
pub struct Dice(pub u64);

impl Dice {
    /// A number below `sides`.
    pub fn next(&mut self, sides: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// The seeds of so many runs that are the same every time and of one that is new, or that of one to look at again:
/// `SLUICE_TEST_SEED`.
pub fn seeds(runs: u64) -> Vec<u64> {
    if let Ok(seed) = std::env::var("SLUICE_TEST_SEED") {
        return vec![seed.parse().unwrap()];
    }
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64;
    // Rows are numbered by the seeds: they stay small.
    (1..=runs).chain([1_000 + now % 999_000]).collect()
}

/// Fresh databases, each with dice for a run of the same steps every time, and again for one of new steps. The seed
/// of each is printed when it begins.
#[expect(clippy::print_stderr, reason = "a test that fails shows its seed")]
pub async fn databases_with_dice() -> impl Iterator<Item = (Database, Dice)> {
    let mut all = Vec::new();
    for seed in seeds(1) {
        all.extend(databases().await.into_iter().map(|database| (database, seed)));
    }
    all.into_iter().map(|(database, seed)| {
        eprintln!("{}, seed {seed}", database.kind);
        (database, Dice(seed))
    })
}
