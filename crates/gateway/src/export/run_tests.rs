//! Files that are read back, and what writing them takes.

use domain::ids::{JobId, StepId, TraceId};
use domain::job::{JobKind, JobState};
use domain::project::Role;
use domain::step::{ApiEndpoint, Security, Step, StepKind, StepStatus};
use domain::time::{HOUR, MINUTE, Timestamp};
use export::Exporter;
use futures_util::TryStreamExt as _;
use serde_json::{Value, json};
use store::{AddedJob, NewJob, SealingKey};

use super::ask::{ExportJob, Payload};
use super::reader::{ExportedSteps, PIECE, Pause, StepReader};
use super::run::write_file;
use super::selection::{ExportRequest, Selection};
use crate::capacity::body_memory::BodyOwner;
use crate::control::offline_export::{ExportedProjects, export_offline};
use crate::job_queue::queued;
use crate::job_queue::running::RunningJob;
use crate::state::caller::Origin;
use crate::state::member::Member;
use crate::testing::{Fresh, until};

const MIB: usize = 1024 * 1024;

fn now() -> Timestamp {
    Timestamp::parse("2026-11-21T12:00:00Z").unwrap()
}

async fn fresh() -> Fresh {
    Fresh::at(now(), json!({})).await
}

/// Records a step with a content, which is sealed by the project's key or another.
async fn record(fresh: &Fresh, id: i64, content: &Value, sealing: Option<&SealingKey>) {
    let finished_at = now().minus_micros(MINUTE - id);
    let step = Step {
        id: StepId(id),
        trace: TraceId::first_at(finished_at),
        project: fresh.caller.project.id(),
        key: None,
        kind: StepKind::Log,
        parent: None,
        source: None,
        trace_context: None,
        attributes: None,
        api_endpoint: ApiEndpoint::Logs,
        status: StepStatus::Completed,
        reason: None,
        error: None,
        started_at: finished_at,
        finished_at,
        routing: None,
        security: Security::default(),
        call: None,
        user_rating: None,
    };
    let content = content.to_string();
    let sealing = sealing.unwrap_or(&fresh.caller.project.sealing);
    fresh.gateway.store.writer().step(step, Some((content.as_bytes(), sealing))).await.unwrap();
}

fn admin(fresh: &Fresh) -> Member {
    Member {
        user: domain::ids::UserId(1),
        email: "owner@localhost".to_owned(),
        token: None,
        session: None,
        org: fresh.caller.project.project.org,
        role: Role::Owner,
        projects: Vec::new(),
        signed_in_at: domain::time::Timestamp(0),
        origin: Origin { address: [127, 0, 0, 1].into(), user_agent: "a test".to_owned() },
    }
}

fn request() -> ExportRequest {
    let format = "jsonl".to_owned();
    ExportRequest { format, since: "1h".to_owned(), until: None, content: true }
}

fn selection() -> Selection {
    request().read(now()).unwrap()
}

async fn asked(fresh: &Fresh) -> ExportJob {
    let (member, project) = (admin(fresh), fresh.caller.project.id());
    fresh.gateway.export(&member, project, &request()).await.unwrap()
}

async fn look(fresh: &Fresh, job: &ExportJob) -> ExportJob {
    let (member, project) = (admin(fresh), fresh.caller.project.id());
    fresh.gateway.export_job(&member, project, &job.id.to_string()).await.unwrap()
}

async fn ended(fresh: &Fresh, job: &ExportJob) -> ExportJob {
    let over = async || Some(look(fresh, job).await).filter(|job| job.state.is_over());
    until("the export is over", over).await
}

/// The file of the same export as the command line writes it.
async fn offline(fresh: &Fresh) -> (ExportedSteps, Vec<u8>) {
    let (gateway, project) = (&fresh.gateway, fresh.caller.project.id());
    let mut file = Vec::new();
    let (request, store) = (request(), &gateway.store);
    let project = ExportedProjects::One(project);
    let exporting = export_offline(store, project, &request, &gateway.clock, &mut file);
    let counts = exporting.await.unwrap();
    (counts, file)
}

/// Digits that do not compress.
fn noise(bytes: usize, seed: u64) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let digits = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b' ' + 2 + (state % 60) as u8)
    });
    digits.filter(|c| *c != '\\').take(bytes).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_has_every_step_once_in_whole_pieces() {
    let fresh = fresh().await;
    let damaged = SealingKey::master(&[9; 32]).unwrap();
    let mut inputs = Vec::new();
    for id in 1..=120_usize {
        inputs.push(match id {
            // Four of them are more than what is read at once, and a compressed one is large when it is open.
            10..=15 => noise(400 * 1024, id as u64),
            40 | 41 => "a".repeat(3 * MIB),
            // A piece of its own.
            60..=62 => noise(PIECE - 500, id as u64),
            _ => format!("Number {id}."),
        });
        let content = json!({"input": inputs[id - 1]});
        let sealing = (id == 80).then_some(&damaged);
        record(&fresh, id as i64, &content, sealing).await;
    }
    let job = ended(&fresh, &asked(&fresh).await).await;
    assert_eq!((job.state, &job.error), (JobState::Completed, &None));
    let (member, project) = (admin(&fresh), fresh.caller.project.id());
    let file = fresh.gateway.export_file(&member, project, &job.id.to_string()).await.unwrap();
    let (_, file, pieces) = file;
    let pieces: Vec<Vec<u8>> = pieces.into_stream().try_collect().await.unwrap();
    let (last, whole) = pieces.split_last().unwrap();
    assert!(whole.iter().all(|piece| piece.len() == PIECE) && last.len() <= PIECE);
    let bytes = pieces.concat();
    assert_eq!((file.steps, file.content_errors), (120, 1));
    assert_eq!((file.bytes, file.pieces), (bytes.len() as u64, pieces.len() as u64));
    assert!(bytes.len() > 8 * MIB, "{}", bytes.len());
    for (line, (id, input)) in
        String::from_utf8(bytes.clone()).unwrap().lines().zip((1..).zip(&inputs))
    {
        let line: Value = serde_json::from_str(line).unwrap();
        let expected =
            if id == 80 { (json!("unreadable"), Value::Null) } else { (Value::Null, json!(input)) };
        assert_eq!(line["id"], id);
        assert!((&line["content_error"], &line["input"]) == (&expected.0, &expected.1), "{id}");
    }

    let (counts, written) = offline(&fresh).await;
    assert_eq!(counts, ExportedSteps { steps: 120, content_errors: 1, step_errors: 0 });
    assert!(written == bytes, "the command writes another file");
}

#[tokio::test]
async fn contents_that_compress_well_are_opened_one_at_a_time() {
    let fresh = fresh().await;
    for id in 1..=20 {
        record(&fresh, id, &json!({"input": "a".repeat(4 * MIB)}), None).await;
    }
    let project = &fresh.caller.project;
    let store = &fresh.gateway.store;
    let mut steps = StepReader::new(store, project.id(), selection(), &project.sealing);
    let mut batch = steps.next().await.unwrap().unwrap();
    let mut file = Exporter::new(selection().format).unwrap();
    let (mut counts, mut pauses, mut bytes) = (ExportedSteps::default(), Vec::new(), 0);
    let taken = allocation_counter::measure(|| {
        while pauses.last() != Some(&Pause::Written) {
            pauses.push(batch.write(&mut file, usize::MAX, &mut counts).unwrap());
            bytes += file.take().unwrap().len();
        }
    });
    assert_eq!((counts.steps, pauses.len()), (20, 21));
    assert!(bytes > 80 * MIB, "{bytes}");
    assert!(taken.bytes_max < 20 * MIB as u64, "{}", taken.bytes_max);
    assert!(steps.next().await.unwrap().is_none());

    // Without memory for them their steps are written all the same.
    let mut steps = StepReader::new(store, project.id(), selection(), &project.sealing);
    let mut batch = steps.next().await.unwrap().unwrap();
    let mut counts = ExportedSteps::default();
    while let Pause::Large(size) = batch.write(&mut file, MIB, &mut counts).unwrap() {
        assert!(size > 4 * MIB);
        batch.leave_out();
    }
    assert_eq!(counts, ExportedSteps { steps: 20, content_errors: 20, step_errors: 0 });
    let lines = String::from_utf8(file.take().unwrap()).unwrap();
    assert_eq!(lines.matches(r#""content_error":"no_memory""#).count(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_content_waits_for_the_memory_of_requests() {
    let fresh = fresh().await;
    record(&fresh, 1, &json!({"input": "a".repeat(3 * MIB)}), None).await;
    let owner = BodyOwner::Project(fresh.caller.project.id());
    let held = fresh.gateway.body_memory.charge(owner, 60 * MIB).await.unwrap();
    let job = asked(&fresh).await;
    let runs = async || (look(&fresh, &job).await.state == JobState::Running).then_some(());
    until("the export runs", runs).await;
    // The command takes no memory of requests: on however slow a machine this takes longer than the export would.
    for _ in 0..5 {
        offline(&fresh).await;
    }
    assert_eq!(look(&fresh, &job).await.state, JobState::Running);
    drop(held);
    let job = ended(&fresh, &job).await;
    assert_eq!(job.state, JobState::Completed);
    assert_eq!(job.file.map(|file| (file.steps, file.content_errors)), Some((1, 0)));
    let all = fresh.gateway.body_memory.charge(owner, 64 * MIB).await;
    assert!(all.is_ok(), "memory is given back: {all:?}");
}

/// An export that this test runs itself.
async fn claimed(fresh: &Fresh) -> RunningJob {
    let (gateway, project) = (fresh.gateway.clone(), fresh.caller.project.id());
    // The gateway's own runner may be quicker.
    let job = until("a job is claimed", async || {
        let payload = Payload::of(selection(), 3);
        let job = NewJob {
            id: JobId(uuid::Uuid::from_bytes(store::random::<16>().unwrap())),
            kind: JobKind::Export,
            project,
            key: None,
            request: store::random::<32>().unwrap(),
            payload: queued::to_json(&payload).unwrap(),
            created_at: now().minus_micros(HOUR),
        };
        let added = gateway.store.add_job(job, 100).await.unwrap();
        assert!(matches!(added, AddedJob::Job(_)));
        gateway.store.claim_job(JobKind::Export, &[], now()).await.unwrap()
    })
    .await;
    RunningJob::new(gateway, job)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_too_large_fails_and_is_not_cut_short() {
    let fresh = fresh().await;
    for id in 1..=3 {
        record(&fresh, id, &json!({"input": noise(300_000, id.unsigned_abs())}), None).await;
    }
    let job = claimed(&fresh).await;
    let whole = write_file(&job, u64::MAX).await.unwrap().unwrap();
    assert_eq!((whole.steps, whole.pieces), (3, 4));
    let job = claimed(&fresh).await;
    assert_eq!(write_file(&job, whole.bytes).await.unwrap(), Some(whole));
    for most in [whole.bytes - 1, 300_000, 0] {
        let job = claimed(&fresh).await;
        let fault = write_file(&job, most).await.unwrap_err().to_string();
        assert!(fault.starts_with("The file would be larger than 1 GiB"), "{fault}");
    }
}
