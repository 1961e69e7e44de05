//! The setup that the tests of this crate share: a gateway over a fresh database, with the sandbox
//! model.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use counters::{Counters, Target};
use domain::ids::{KeyId, NodeId, ProjectId, StepId};
use domain::secret::Secret;
use domain::step::{ApiEndpoint, Call, Security, Step, StepKind, StepStatus};
use domain::time::{Clock, Timestamp};
use serde_json::{Map, Value, json};
use store::{Claim, Location, ObservedStep, Options, SealingKey, Store};
use tempfile::TempDir;

use crate::admission::admit::{GateRefusal, Spends};
use crate::config::{Config, OnCounterLoss, SharedCounters};
use crate::control::bootstrap::{FirstSettings, bootstrap};
use crate::gateway::Gateway;
use crate::pipeline::in_flight::InFlight;
use crate::state::caller::{Caller, Origin};
use domain::conversation::{Body, Message, Prompt, Role};

const KEY: &str = "ak_00000000000000aa.0123456789abcdefghijABCDEFGHIJ0123456789_-x";
/// The trace of every step of [`step`].
pub(crate) const TRACE: &str = "01a1fe4e-57c4-731b-a4e9-4b060946c0d9";
/// Nothing that a test waits for takes longer, on however slow a machine.
const TEST_TIMEOUT: Duration = Duration::from_mins(1);

/// A gateway of its own and a caller for it.
pub(crate) struct Fresh {
    pub(crate) gateway: Gateway,
    pub(crate) caller: Caller,
    folder: TempDir,
}

impl Fresh {
    /// A gateway whose first project has these settings.
    pub(crate) async fn with(settings: Value) -> Self {
        Self::made(Clock::system(), settings, false, None).await
    }

    /// A gateway like that of [`Fresh::with`], on a clock that stands still at a time.
    pub(crate) async fn at(now: Timestamp, settings: Value) -> Self {
        Self::made(Clock::fixed(now), settings, false, None).await
    }

    /// A gateway like that of [`Fresh::with`], without background work: what a test queues or claims is the test's
    /// alone.
    pub(crate) async fn idle(settings: Value) -> Self {
        Self::made(Clock::system(), settings, true, None).await
    }

    /// A gateway like that of [`Fresh::at`], without background work.
    pub(crate) async fn idle_at(now: Timestamp, settings: Value) -> Self {
        Self::made(Clock::fixed(now), settings, true, None).await
    }

    /// A gateway without background work that counts with others, on a clock that stands still: no decision is late.
    pub(crate) async fn counting(redis: &Redis, on_loss: OnCounterLoss, settings: Value) -> Self {
        let noon = Timestamp::parse("2026-11-15T12:00:00Z").unwrap();
        Self::made(Clock::fixed(noon), settings, true, Some((redis, on_loss))).await
    }

    async fn made(
        clock: Clock,
        settings: Value,
        is_idle: bool,
        shared: Option<(&Redis, OnCounterLoss)>,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let claim = if shared.is_some() { Claim::ServeFleet } else { Claim::Serve };
        let store = open(&folder, &clock, claim).await;
        let first = FirstSettings {
            owner_email: "owner@localhost".to_owned(),
            owner_password: Some(Secret::new("owner-password-1".to_owned())),
            key: Some(Secret::new(KEY.to_owned())),
        };
        let made = bootstrap(&store, &first, &clock).await.unwrap().unwrap();
        let mut tx = store.begin().await.unwrap();
        let mut project = tx.project(made.project).await.unwrap().unwrap();
        let Value::Object(settings) = settings else { panic!("settings are an object") };
        project.settings.extend(settings);
        tx.save_project(&project).await.unwrap();
        tx.commit().await.unwrap();
        let shared_counters = match shared {
            Some((redis, on_loss)) => {
                let counters = redis.counters(store.node(), &clock).await;
                Some(SharedCounters { counters, on_loss })
            }
            None => None,
        };
        let gateway = serve(store, clock, is_idle, shared_counters).await;
        let caller = gate(&gateway).await.unwrap();
        Self { gateway, caller, folder }
    }

    /// The decision of the gate about a request that may cost money.
    pub(crate) async fn gate(&self) -> std::result::Result<Caller, GateRefusal> {
        gate(&self.gateway).await
    }

    /// Another node on its database, for a while.
    pub(crate) async fn other_node(&self) -> Store {
        open(&self.folder, &self.gateway.clock, Claim::Visit).await
    }

    /// Opens a trace and returns its id.
    pub(crate) async fn trace(&self) -> String {
        self.gateway.open_trace(&self.caller, None::<Map<_, _>>, None).await.unwrap().id.to_string()
    }

    /// A call that has been answered and is not recorded yet.
    pub(crate) async fn in_flight(&self, trace: &str) -> InFlight {
        let api_endpoint = domain::step::ApiEndpoint::Executions;
        let context =
            self.gateway.request_context(&self.caller, trace, None, api_endpoint).await.unwrap();
        let prompt = Prompt::question("Say hello.".to_owned());
        match self.gateway.route(context, prompt).await.unwrap() {
            Ok(routed) => self.gateway.call(*routed).await.unwrap().0,
            Err(refusal) => panic!("blocked: {}", refusal.reason),
        }
    }

    /// Stores steps with their contents, each under a key, and returns them as an observer of the writer
    /// receives them.
    pub(crate) async fn observed(
        &self,
        steps: Vec<(Step, &[u8], &SealingKey)>,
    ) -> Vec<ObservedStep> {
        let store = &self.gateway.store;
        let trace = self.trace().await.parse().unwrap();
        let (send, mut observed) = tokio::sync::mpsc::unbounded_channel();
        store.writer().observe(Box::new(move |step| send.send(step).unwrap()));
        let mut found = Vec::new();
        for (step, content, key) in steps {
            let id = store.step_id().await.unwrap();
            let project = self.caller.project.id();
            let step = Step { id, trace, project, key: None, ..step };
            store.writer().step(Box::new(step), Some((content, key))).await.unwrap();
            found.push(observed.recv().await.unwrap());
        }
        found
    }

    /// The steps of a trace, once there is one.
    pub(crate) async fn steps(&self, trace: &str) -> Vec<Step> {
        let id = trace.parse().unwrap();
        until("there is a step", async || {
            let steps = self.gateway.store.steps(id).await.unwrap();
            (!steps.is_empty()).then_some(steps)
        })
        .await
    }

    /// Deletes the steps whose retention is over at a time. Returns how many there were.
    pub(crate) async fn purge(&self, now: Timestamp) -> u64 {
        let (store, project) = (&self.gateway.store, self.caller.project.id());
        while store.group_next_hour(project, now).await.unwrap() {}
        while store.sum_next_quarter(project, now).await.unwrap() {}
        let mut deleted = 0;
        loop {
            match store.purge_steps(now).await.unwrap() {
                0 => return deleted,
                some => deleted += some,
            }
        }
    }
}

/// A completed step with nothing else in it, which took a second and a half.
pub(crate) fn step(kind: StepKind, call: Option<Call>) -> Step {
    Step {
        id: StepId(7),
        trace: TRACE.parse().unwrap(),
        project: ProjectId(1),
        key: Some(KeyId(0xaa)),
        kind,
        parent: None,
        source: None,
        trace_context: None,
        attributes: None,
        api_endpoint: ApiEndpoint::Executions,
        status: StepStatus::Completed,
        reason: None,
        error: None,
        started_at: Timestamp(1_000_000),
        finished_at: Timestamp(2_500_000),
        routing: None,
        security: Security::default(),
        call,
        user_rating: None,
    }
}

/// A message of a user with these parts.
pub(crate) fn of_parts(parts: Vec<Value>) -> Prompt {
    let message = Message { role: Role::User, body: Body::Parts(parts), extra: Map::new() };
    Prompt { messages: vec![message], ..Prompt::default() }
}

/// A part with a PDF of about so many bytes, of which safety reads nothing.
pub(crate) fn pdf(bytes: usize) -> Value {
    let data = format!("JVBERi0xLjcKJeLjz9MK{}", "gP3A".repeat(bytes / 3));
    json!({"type": "file", "file": {"filename": "a.pdf",
        "file_data": format!("data:application/pdf;base64,{data}")}})
}

/// So many bytes that cannot be compressed, always the same.
pub(crate) fn noise(bytes: usize) -> Vec<u8> {
    let mut seed = 1_u64;
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 56) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

/// Asks again and again until there is an answer.
pub(crate) async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let asking = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let answer = tokio::time::timeout(TEST_TIMEOUT, asking).await;
    answer.unwrap_or_else(|_| panic!("waited in vain until {what}"))
}

async fn open(folder: &TempDir, clock: &Clock, claim: Claim) -> Store {
    let location = Location::Sqlite(folder.path().join("sluice.db"));
    let master = SealingKey::master(&[7; 32]).unwrap();
    let clock = clock.clone();
    Store::open(Options { location, master, claim, clock }).await.unwrap()
}

async fn serve(
    store: Store,
    clock: Clock,
    is_idle: bool,
    shared_counters: Option<SharedCounters>,
) -> Gateway {
    let client = providers::Client::new(providers::Egress::default()).unwrap();
    let config = Config {
        perimeter: domain::settings::Perimeter::default(),
        max_body_bytes: 1 << 20,
        max_body_memory: 64 << 20,
        egress_allow: Vec::new(),
        public_url: None,
        mailer: None,
        idle_hours: 24,
        otlp: None,
        shared_counters,
    };
    if is_idle {
        return Gateway::idle(store, client, config, clock).await.unwrap();
    }
    Gateway::open(store, client, config, clock).await.unwrap()
}

async fn gate(gateway: &Gateway) -> std::result::Result<Caller, GateRefusal> {
    let origin = Origin { address: [127, 0, 0, 1].into(), user_agent: "a test".to_owned() };
    gateway.gate(Some(KEY), &origin, Spends::Yes).await
}

/// A Redis of its own. It dies with this value.
pub(crate) struct Redis {
    child: Child,
    port: u16,
    _folder: TempDir,
}

impl Redis {
    /// Starts one, where it is installed.
    pub(crate) async fn start() -> Option<Self> {
        let found = Command::new("redis-server").arg("--version").stdout(Stdio::null()).status();
        if !found.is_ok_and(|status| status.success()) {
            let all = std::env::var_os("SLUICE_TEST_ALL").is_some();
            assert!(!all, "SLUICE_TEST_ALL is set, and there is no redis-server");
            eprintln!("skipped: there is no redis-server");
            return None;
        }
        // A port that is taken meanwhile fails it, and another one is tried.
        for _ in 0..5 {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port();
            drop(listener);
            let folder = tempfile::tempdir().unwrap();
            let child = Command::new("redis-server")
                .args(["--bind", "127.0.0.1", "--save", "", "--port", &port.to_string(), "--dir"])
                .arg(folder.path())
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            let mut redis = Self { child, port, _folder: folder };
            let answers = async || match redis.child.try_wait().unwrap() {
                Some(_) => Some(false),
                None => redis.try_ask("PING").ok().map(|()| true),
            };
            if until("Redis answers, or has ended", answers).await {
                return Some(redis);
            }
        }
        panic!("no Redis starts");
    }

    /// The counters of a node, which do nothing of their own.
    pub(crate) async fn counters(&self, node: NodeId, clock: &Clock) -> Counters {
        let url = Secret::new(format!("redis://127.0.0.1:{}", self.port));
        let settings = counters::Settings {
            target: Target::parse(&url).unwrap(),
            installation: "test".to_owned(),
            node,
            clock: clock.clone(),
        };
        let counters = Box::pin(Counters::quiet(settings)).await.unwrap();
        until("Redis is reached", async || {
            Box::pin(counters.beat()).await;
            counters.is_reached(ProjectId(1)).then_some(())
        })
        .await;
        counters
    }

    /// Sends a command that is answered by a word.
    pub(crate) fn ask(&self, command: &str) {
        self.try_ask(command).unwrap();
    }

    fn try_ask(&self, command: &str) -> std::io::Result<()> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.write_all(format!("{command}\r\n").as_bytes())?;
        let mut sign = [0];
        stream.read_exact(&mut sign)?;
        if sign == *b"+" { Ok(()) } else { Err(std::io::ErrorKind::Other.into()) }
    }

    /// How many functions it has run.
    pub(crate) fn functions_run(&self) -> u64 {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(b"INFO commandstats\r\n").unwrap();
        let (mut answer, mut length) = (BufReader::new(stream), String::new());
        answer.read_line(&mut length).unwrap();
        let mut text = vec![0; length.trim().trim_start_matches('$').parse().unwrap()];
        answer.read_exact(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let of_functions = |line: &str| {
            let (calls, _) = line.strip_prefix("cmdstat_fcall:calls=")?.split_once(',')?;
            calls.parse().ok()
        };
        text.lines().find_map(of_functions).unwrap_or_default()
    }

    /// Has it answer nothing until [`Redis::resume`].
    pub(crate) fn pause(&self) {
        self.signal("-STOP");
    }

    pub(crate) fn resume(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
