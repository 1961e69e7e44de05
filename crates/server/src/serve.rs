//! Serving: the parts that are started, and a stop that loses nothing.

use std::io::Write;
use std::time::Duration;

use axum::Router;
use domain::time::Clock;
use gateway::{FirstCredentials, Gateway};
use metrics_exporter_prometheus::PrometheusHandle;
use store::Claim;
use tokio::signal::unix::SignalKind;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::commands::{Failure, watch};
use crate::config::{self, Config};
use crate::listen::Ends;
use crate::loops::Loops;
use crate::{listen, open, telemetry};

/// Connections at once to the metrics.
const MOST_METRICS_CONNECTIONS: usize = 64;
/// Histograms are folded this often.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Serves until SIGTERM or SIGINT, or until another process serves the database.
pub(crate) async fn run(config: Config) -> Result<(), Failure> {
    telemetry::start_logs(&config.log)?;
    for warning in config::unknown_variables().iter().chain(&config.otlp.warnings) {
        tracing::warn!("{warning}");
    }
    let connections = listen::connections();
    let listener = listen::bind(config.listen).map_err(|error| {
        Failure(format!(
            "{} cannot be listened on: {error}. Stop what uses it, or choose another with SLUICE_LISTEN",
            config.listen
        ))
    })?;
    let (loops, threads) = Loops::start()
        .map_err(|error| Failure(format!("the event loops cannot start: {error}")))?;
    let clock = Clock::system();
    let claim = match config.redis {
        Some(_) => Claim::ServeFleet,
        None if config.allow_inexact_limits => Claim::ServeShared,
        None => Claim::Serve,
    };
    let store = open::store(&config, claim, &clock).await?;
    let client = open::client(&config)?;
    let of_gateway = match open::gateway_config(&config, &store, &clock).await {
        Ok(of_gateway) => of_gateway,
        Err(failure) => {
            store.close().await;
            return Err(failure);
        }
    };
    let credentials = match gateway::bootstrap(&store, &config.first, &clock).await {
        Ok(credentials) => credentials,
        Err(error) => {
            store.close().await;
            return Err(error.into());
        }
    };
    let node = store.node();
    let gateway = Gateway::open(store, client, of_gateway, clock).await?;
    let stop = CancellationToken::new();
    let tasks = TaskTracker::new();
    tasks.spawn(loops.clone().release_memory(stop.clone()));
    start_metrics(&config, &stop, &tasks, &loops)?;
    let settings = api::Settings {
        trusted_proxies: config.trusted_proxies.clone(),
        public_url: config.public_url.clone(),
        console: config.console,
    };
    let router = api::router(gateway.clone(), settings);
    greet(&config, credentials.as_ref());
    tracing::info!(address = %config.listen, %node, version = env!("CARGO_PKG_VERSION"), "serving");
    watch_signals(&gateway, config.shutdown_delay, &stop, &tasks)?;
    let displaced = watch_claim(&gateway, &stop, &tasks);
    wind_down_at(&stop, &gateway, &tasks);
    let ends = Ends { draining: gateway.draining(), stop, cut: gateway.cut_off() };
    listen::serve(listener, router, connections, ends, &tasks, &loops).await;
    tasks.close();
    tasks.wait().await;
    gateway.close().await;
    threads.close().await;
    tracing::info!("stopped");
    match displaced.await {
        Ok(false) => Ok(()),
        Ok(true) => Err(Failure(
            "another Sluice serves this database since the connection to it was lost; this one has stopped"
                .to_owned(),
        )),
        Err(error) => Err(Failure(format!("the watch over the database lock ended: {error}"))),
    }
}

/// Stops the server when another process has taken over the database. Returns whether that is why
/// it stopped.
fn watch_claim(
    gateway: &Gateway,
    stop: &CancellationToken,
    tasks: &TaskTracker,
) -> JoinHandle<bool> {
    let (gateway, stop) = (gateway.clone(), stop.clone());
    tasks.spawn(async move {
        let is_displaced = stop.run_until_cancelled(gateway.displaced()).await.is_some();
        stop.cancel();
        is_displaced
    })
}

/// Has the gateway begin no further part of a job when the stop begins: open requests may take a while.
fn wind_down_at(stop: &CancellationToken, gateway: &Gateway, tasks: &TaskTracker) {
    let (stop, gateway) = (stop.clone(), gateway.clone());
    tasks.spawn(async move {
        stop.cancelled().await;
        gateway.wind_down();
    });
}

/// The signal of a write beyond the largest size of a file, on Linux.
const SIGXFSZ: i32 = 25;

/// Stops at a signal: at once, or after the delay. Until then the gateway serves as before and is not ready; a
/// second signal ends the wait.
fn watch_signals(
    gateway: &Gateway,
    delay: Duration,
    stop: &CancellationToken,
    tasks: &TaskTracker,
) -> Result<(), Failure> {
    let (mut terminate, mut interrupt) =
        (watch(SignalKind::terminate())?, watch(SignalKind::interrupt())?);
    // A write beyond the largest file that the system allows fails then, as on a full disk; it does not
    // end the process.
    let beyond_limit = watch(SignalKind::from_raw(SIGXFSZ))?;
    let (stop, gateway) = (stop.clone(), gateway.clone());
    tasks.spawn(async move {
        let _held = beyond_limit;
        let mut signal = async || {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        if stop.run_until_cancelled(signal()).await.is_some() {
            gateway.drain();
            if !delay.is_zero() {
                tracing::info!(seconds = delay.as_secs(), "stopping after the shutdown delay");
                let waits = async {
                    tokio::select! {
                        () = tokio::time::sleep(delay) => {}
                        () = signal() => {}
                    }
                };
                stop.run_until_cancelled(waits).await;
            }
        }
        stop.cancel();
    });
    Ok(())
}

fn start_metrics(
    config: &Config,
    stop: &CancellationToken,
    tasks: &TaskTracker,
    loops: &Loops,
) -> Result<(), Failure> {
    let Some(address) = config.metrics_listen else { return Ok(()) };
    let listener = match listen::bind(address) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::warn!(%address, %error, "metrics are not served: the address cannot be listened on");
            return Ok(());
        }
    };
    let handle = telemetry::start_metrics()?;
    let (upkeep, stopped) = (handle.clone(), stop.clone());
    tasks.spawn(async move {
        let mut ticks = tokio::time::interval(UPKEEP_INTERVAL);
        loop {
            tokio::select! {
                () = stopped.cancelled() => return,
                _ = ticks.tick() => upkeep.run_upkeep(),
            }
        }
    });
    let stop = stop.clone();
    let ends = Ends { draining: CancellationToken::new(), stop, cut: CancellationToken::new() };
    let (served, loops) = (tasks.clone(), loops.clone());
    let router = metrics_router(handle);
    tasks.spawn(async move {
        listen::serve(listener, router, MOST_METRICS_CONNECTIONS, ends, &served, &loops).await;
    });
    Ok(())
}

fn metrics_router(handle: PrometheusHandle) -> Router {
    Router::new().route("/metrics", axum::routing::get(async move || handle.render()))
}

/// Prints the gateway's address, and the first credentials, once. They go to the terminal and never
/// to the log.
fn greet(config: &Config, first: Option<&FirstCredentials>) {
    let mut out = std::io::stdout().lock();
    let written = write_greeting(&mut out, config, first).and_then(|()| out.flush());
    if let Err(error) = written {
        let lost = if first.is_some() {
            "the first credentials could not be printed; make others with `sluice user` and \
             `sluice key`"
        } else {
            "the address could not be printed"
        };
        tracing::warn!(%error, "{lost}");
    }
}

fn write_greeting(
    out: &mut impl Write,
    config: &Config,
    first: Option<&FirstCredentials>,
) -> std::io::Result<()> {
    let base = format!("http://{}", config.listen);
    let Some(first) = first else {
        return writeln!(out, "Sluice serves {base}  (API description: {base}/docs)");
    };
    let password = match &first.password {
        Some(password) => password.expose(),
        None => "(the one you gave)",
    };
    let key = first.key.expose();
    writeln!(
        out,
        r#"Sluice serves {base}  (API description: {base}/docs)

This is a new database. These credentials are shown once:

  Owner     {email}
  Password  {password}
  API key   {key}     (project {project}, sandbox model)

Try it; no provider account is needed:

  KEY='{key}'
  TRACE=$(curl -s {base}/api/v1/traces -H "Authorization: Bearer $KEY" -H 'Content-Type: application/json' -d '{{}}' | sed 's/.*"id":"\([^"]*\)".*/\1/')
  curl -s {base}/api/v1/executions -H "Authorization: Bearer $KEY" -H 'Content-Type: application/json' -d "{{\"trace_id\":\"$TRACE\",\"input\":\"Say hello to the team.\"}}"
  curl -s -X PATCH {base}/api/v1/traces/$TRACE/complete -H "Authorization: Bearer $KEY"
"#,
        email = first.email,
        project = first.project,
    )
}
