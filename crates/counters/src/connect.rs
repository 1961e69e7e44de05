//! A new connection: the server is found and checked, and gets the functions.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisConnectionInfo, Value, cmd};
use tokio::time::timeout;

use crate::library;
use crate::reply::{list, number, text};
use crate::target::{Address, Mode, Target, shown};

/// The longest that a connection may take to be made and checked.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Commands that wait to be written: a burst of requests does not wait for room.
const PIPELINE_BUFFER: usize = 1024;
/// The oldest version that has functions.
const LEAST_MAJOR: u32 = 7;

/// A server as it describes itself.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) connection: MultiplexedConnection,
    /// Its run id: new after every restart, and another at every server.
    pub(crate) epoch: String,
}

/// Connects to a server that can hold counters. The error says what is wrong, and what to do.
pub(crate) async fn connect(target: &Target, address: &Address) -> Result<Found, String> {
    let connecting = async {
        let mut connection = plain(target, address, true).await?;
        let epoch = check(target, &mut connection).await?;
        load(&mut connection).await?;
        Ok(Found { connection, epoch })
    };
    timeout(CONNECT_TIMEOUT, connecting)
        .await
        .unwrap_or_else(|_| Err("it does not answer".to_owned()))
}

/// Loads the functions, unless they are there: a server without memory would refuse.
async fn load(connection: &mut MultiplexedConnection) -> Result<(), String> {
    let failed = |error: redis::RedisError| format!("its functions cannot be loaded: {error}");
    let find = cmd("FUNCTION").arg("LIST").arg("LIBRARYNAME").arg(library::name()).to_owned();
    let found: Value = find.query_async(connection).await.map_err(failed)?;
    if list(found).is_ok_and(|found| !found.is_empty()) {
        return Ok(());
    }
    // Another node may have loaded them meanwhile.
    let load = cmd("FUNCTION").arg("LOAD").arg("REPLACE").arg(library::source()).to_owned();
    load.query_async::<Value>(connection).await.map(drop).map_err(failed)
}

/// The master that the first Sentinel to answer names.
pub(crate) async fn ask_sentinels(target: &Target) -> Result<Address, String> {
    let mut why = "no Sentinel is named".to_owned();
    for sentinel in &target.hosts {
        let asked = async {
            let mut connection = plain(target, sentinel, false).await?;
            let ask = cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(&target.master).to_owned();
            let reply: Value =
                ask.query_async(&mut connection).await.map_err(|error| error.to_string())?;
            let unknown = || format!("Sentinel knows no master '{}'", target.master);
            let parts = list(reply).map_err(|_| unknown())?;
            let [host, port] = &parts[..] else { return Err(unknown()) };
            let host = text(host).map_err(|_| unknown())?.to_owned();
            let port = number(port).ok().and_then(|port| u16::try_from(port).ok());
            Ok((host, port.ok_or_else(unknown)?))
        };
        match timeout(CONNECT_TIMEOUT, asked).await {
            Ok(Ok(address)) => return Ok(address),
            Ok(Err(error)) => why = format!("Sentinel {}: {error}", shown(sentinel)),
            Err(_) => why = format!("Sentinel {} does not answer", shown(sentinel)),
        }
    }
    Err(why)
}

/// A connection that nothing was checked on. The Sentinels take no credentials.
pub(crate) async fn plain(
    target: &Target,
    address: &Address,
    signs_in: bool,
) -> Result<MultiplexedConnection, String> {
    let mut login = RedisConnectionInfo::default().set_skip_set_lib_name();
    if signs_in {
        login = login.set_db(target.database);
        if let Some(username) = &target.username {
            login = login.set_username(username);
        }
        if let Some(password) = &target.password {
            login = login.set_password(password.expose());
        }
    }
    let client = target.client(address, |info| info.set_redis_settings(login));
    // Our own time limits hold: each call has one.
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_TIMEOUT))
        .set_response_timeout(None)
        .set_pipeline_buffer_size(PIPELINE_BUFFER);
    let client = client.map_err(|error| error.to_string())?;
    let connected = client.get_multiplexed_async_connection_with_config(&config).await;
    connected.map_err(|error| refusal(&error.to_string(), target.mode))
}

/// Why a connection cannot be made, and what to do about it where the certificate is the reason.
fn refusal(error: &str, mode: Mode) -> String {
    let stranger = "its certificate is of an authority that is not trusted: name the authority's in redis_ca_file";
    // Sentinels and servers of a cluster name each other, usually by their addresses.
    let elsewhere = match mode {
        Mode::Single => {
            "its certificate is for another host: write the host in redis_url as the certificate has it"
        }
        Mode::Sentinel => {
            "its certificate is for another host: write the Sentinels in redis_url as their certificates have them, and \
             set resolve-hostnames and announce-hostnames at the Sentinels, with the names of the servers that the \
             certificates have"
        }
        Mode::Cluster => {
            "its certificate is for another host: write the hosts in redis_url as their certificates have them, and at \
             every server set cluster-announce-hostname to its name there, and cluster-preferred-endpoint-type to \
             hostname"
        }
    };
    let what_to_do = [
        ("UnknownIssuer", stranger),
        // By another authority of the same name.
        ("BadSignature", stranger),
        ("certificate not valid for name", elsewhere),
        ("certificate expired", "its certificate has expired: renew it"),
    ];
    let found = what_to_do.iter().find(|(sign, _)| error.contains(*sign));
    found.map_or_else(|| error.to_owned(), |(_, told)| format!("{told} ({error})"))
}

/// Refuses a server that would lose or falsify counters. Returns its run id.
async fn check(target: &Target, connection: &mut MultiplexedConnection) -> Result<String, String> {
    let info: String = cmd("INFO")
        .query_async(connection)
        .await
        .map_err(|error| format!("it does not say what it is: {error}"))?;
    let about = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(str::trim)
    };
    let version = about("redis_version").unwrap_or("unknown");
    let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
    if major.is_none_or(|major| major < LEAST_MAJOR) {
        return Err(format!(
            "it is version {version}: Redis {LEAST_MAJOR} or newer, or Valkey, is needed"
        ));
    }
    let policy = about("maxmemory_policy").unwrap_or("unknown");
    if policy != "noeviction" {
        return Err(format!(
            "its maxmemory-policy is {policy}, which may throw counters away: set maxmemory-policy noeviction"
        ));
    }
    let is_cluster = about("cluster_enabled") == Some("1");
    if is_cluster != (target.mode == Mode::Cluster) {
        return Err(if is_cluster {
            "it is a part of a cluster: name it as redis+cluster://".to_owned()
        } else {
            "it is no part of a cluster: name it as redis://".to_owned()
        });
    }
    if about("role") != Some("master") {
        return Err("it is a replica: name the master, or its Sentinels".to_owned());
    }
    if is_cluster {
        let state: String = cmd("CLUSTER")
            .arg("INFO")
            .query_async(connection)
            .await
            .map_err(|error| format!("it does not say how its cluster is: {error}"))?;
        if !state.lines().any(|line| line.trim() == "cluster_state:ok") {
            return Err(
                "its cluster is down: see `redis-cli --cluster check`, and cluster_state in CLUSTER INFO".to_owned(),
            );
        }
    }
    let epoch = about("run_id").filter(|id| !id.is_empty());
    epoch.map(str::to_owned).ok_or_else(|| "it has no run id".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_for_another_host_is_put_right_where_the_host_comes_from() {
        let error = "invalid peer certificate: certificate not valid for name \"10.0.0.7\"";
        for (mode, told) in [
            (Mode::Single, "write the host in redis_url"),
            (Mode::Sentinel, "announce-hostnames at the Sentinels"),
            (Mode::Cluster, "set cluster-announce-hostname"),
        ] {
            let refused = refusal(error, mode);
            assert!(
                refused.contains(told) && refused.ends_with(&format!("({error})")),
                "{refused}"
            );
        }
        assert_eq!(refusal("Connection refused", Mode::Cluster), "Connection refused");
    }
}
