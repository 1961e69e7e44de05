//! A gateway on SQLite, and a second way into its database.

use domain::ids::ProjectId;
use domain::project::Role;
use domain::secret::Secret;
use domain::settings::Perimeter;
use domain::time::Clock;
use gateway::{
    Caller, Config, FirstSettings, Gateway, Member, NewServiceToken, Origin, Spends, TokenExpiry,
};
use store::{Claim, Location, Options, SealingKey, Store};

/// A database with one project, and the keys that were made for it.
pub struct Database {
    folder: tempfile::TempDir,
    /// The key of the first project.
    pub key: Secret,
}

/// The first project.
pub const FIRST: ProjectId = ProjectId(1);

impl Database {
    pub async fn new() -> Self {
        let mut database =
            Self { folder: tempfile::tempdir().unwrap(), key: Secret::new(String::new()) };
        let store = database.open(Claim::Serve, Clock::system()).await;
        let first = FirstSettings {
            owner_email: "owner@localhost".to_owned(),
            owner_password: Some(Secret::new("owner-password-1".to_owned())),
            key: None,
        };
        let first = gateway::bootstrap(&store, &first, &Clock::system()).await.unwrap();
        database.key = first.unwrap().key;
        store.close().await;
        database
    }

    async fn open(&self, claim: Claim, clock: Clock) -> Store {
        let location = Location::Sqlite(self.folder.path().join("sluice.db"));
        let master = SealingKey::master(&[7; 32]).unwrap();
        Store::open(Options { location, master, claim, clock }).await.unwrap()
    }

    /// The gateway of this database.
    pub async fn serve(&self) -> Gateway {
        self.serve_on(Clock::system()).await
    }

    /// The gateway of this database on a clock.
    pub async fn serve_on(&self, clock: Clock) -> Gateway {
        let config = Config {
            perimeter: Perimeter::default(),
            max_body_bytes: 1 << 20,
            max_body_memory: 64 << 20,
            egress_allow: Vec::new(),
            public_url: None,
            mailer: None,
            idle_hours: 24,
            otlp: None,
            shared_counters: None,
        };
        let egress =
            providers::Egress { allow: Vec::new(), proxy: None, no_proxy: None, ca_file: None };
        let client = providers::Client::new(egress).unwrap();
        let store = self.open(Claim::Serve, clock.clone()).await;
        Gateway::open(store, client, config, clock).await.unwrap()
    }

    /// The database beside its gateway: what is written here, another version may have written.
    pub async fn visit(&self) -> Store {
        self.open(Claim::Visit, Clock::system()).await
    }
}

/// Asks the gate as a caller with this key does.
pub async fn gate(gateway: &Gateway, key: &Secret) -> gateway::Result<Caller> {
    let gated = gateway.gate(Some(key.expose()), &origin(), Spends::No).await;
    gated.map_err(|refusal| refusal.error)
}

/// The owner, signed in.
pub async fn owner(store: &Store) -> Member {
    let account = store.account("owner@localhost").await.unwrap().unwrap();
    Member {
        user: account.user,
        email: account.email,
        token: None,
        session: None,
        org: account.org,
        role: Role::Owner,
        projects: Vec::new(),
        signed_in_at: domain::time::Timestamp(0),
        origin: origin(),
    }
}

/// A service token for ten minutes in the first project.
pub fn new_service_token(role: &str) -> NewServiceToken {
    NewServiceToken {
        name: "nightly".to_owned(),
        role: role.to_owned(),
        projects: vec![FIRST],
        expiry: TokenExpiry::In(600),
    }
}

pub fn origin() -> Origin {
    Origin { address: [127, 0, 0, 1].into(), user_agent: String::new() }
}
