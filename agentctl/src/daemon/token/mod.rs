//! Personal access tokens: the rights of one owner, for whoever has the secret.
//!
//! A secret is 256 random bits, so its SHA-256 tells nothing of it and needs no salt and no slow hash. It is compared by
//! looking up that hash: how long the search takes tells nothing that a caller could steer.

mod file;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::limits::{TOKEN_USE_GRAIN, TOKENS};

/// How every secret begins, so that people and scanners recognise one.
pub const PREFIX: &str = "agentctl_pat_";

type Hash = [u8; 32];

/// What a token gives: an owner's rights, until it is revoked or expires.
#[derive(Debug)]
pub struct Grant {
    /// The token's id. No secret.
    pub id: Uuid,
    /// Whose rights.
    pub owner: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ends.
    pub expires_at: Option<Timestamp>,
    hash: Hash,
    last_used_at: Mutex<Option<Timestamp>>,
    revoked: CancellationToken,
}

impl Grant {
    /// Whether it still gives anything.
    pub fn is_valid(&self) -> bool {
        !self.revoked.is_cancelled() && self.expires_at.is_none_or(|at| Timestamp::now() < at)
    }

    /// When it was last used, to the hour.
    pub fn last_used_at(&self) -> Option<Timestamp> {
        *self.last_used_at.lock()
    }

    /// Returns once it gives nothing any more.
    pub async fn ended(&self) {
        while self.is_valid() {
            // A minute at most: the clock of the wall can be set.
            let left = self.expires_at.and_then(|at| Duration::try_from(at.duration_since(Timestamp::now())).ok());
            let _ =
                tokio::time::timeout(left.map_or(Duration::MAX, |left| left.min(Duration::from_secs(60))), self.revoked.cancelled()).await;
        }
    }

    /// Notes a use; whether that is news to be stored.
    fn used(&self, now: Timestamp) -> bool {
        let mut last = self.last_used_at.lock();
        let is_news = last.is_none_or(|last| now.duration_since(last).unsigned_abs() >= TOKEN_USE_GRAIN);
        if is_news {
            *last = Some(now);
        }
        is_news
    }
}

/// Every token that was not revoked.
#[derive(Debug)]
pub struct Tokens {
    path: PathBuf,
    grants: Mutex<HashMap<Hash, Arc<Grant>>>,
    /// Held while the file is written: the last one to write has the newest state.
    writing: Mutex<()>,
}

/// No further token can be made.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// There are [`TOKENS`] of them.
    #[error("there are {TOKENS} tokens; revoke one first")]
    TooMany,
    /// It could not be made or stored.
    #[error("the token could not be stored: {0}")]
    Io(#[from] std::io::Error),
}

impl Tokens {
    /// Reads `tokens.json` of a state folder; a missing one holds none.
    ///
    /// # Errors
    /// It can't be read, or is not what we write.
    pub fn open(state_dir: &std::path::Path) -> anyhow::Result<Self> {
        let path = state_dir.join("tokens.json");
        let grants = file::read(&path)?.into_iter().map(|grant| (grant.hash, Arc::new(grant))).collect();
        Ok(Self { path, grants: Mutex::new(grants), writing: Mutex::default() })
    }

    /// Makes one and stores it. Returns the secret, which nobody can tell later. Blocks.
    ///
    /// # Errors
    /// See [`CreateError`]: no token was made.
    pub fn create(&self, owner: String, expires_at: Option<Timestamp>) -> Result<(String, Arc<Grant>), CreateError> {
        let mut random = [0; 32];
        // The kernel's own source gives 32 bytes whole or fails.
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()).map_err(std::io::Error::from)?;
        let secret = format!("{PREFIX}{}", file::hex(&random));
        let grant = Arc::new(Grant {
            id: Uuid::new_v4(),
            owner,
            created_at: Timestamp::now(),
            expires_at,
            hash: hash(&secret),
            last_used_at: Mutex::default(),
            revoked: CancellationToken::new(),
        });
        {
            let mut grants = self.grants.lock();
            if grants.len() >= TOKENS {
                grants.retain(|_, grant| grant.is_valid());
            }
            if grants.len() >= TOKENS {
                return Err(CreateError::TooMany);
            }
            grants.insert(grant.hash, grant.clone());
        }
        if let Err(error) = self.store() {
            self.grants.lock().remove(&grant.hash);
            return Err(error.into());
        }
        Ok((secret, grant))
    }

    /// What a secret gives, if anything.
    pub fn find(&self, secret: &str) -> Option<Arc<Grant>> {
        self.grants.lock().get(&hash(secret)).filter(|grant| grant.is_valid()).cloned()
    }

    /// Every token, oldest first.
    pub fn list(&self) -> Vec<Arc<Grant>> {
        let mut all: Vec<_> = self.grants.lock().values().cloned().collect();
        all.sort_by_key(|grant| (grant.created_at, grant.id));
        all
    }

    /// Ends a token at once, and then stores that; whether there was one. Blocks.
    ///
    /// # Errors
    /// It has ended, but would be back after a restart.
    pub fn revoke(&self, id: &str) -> std::io::Result<bool> {
        let revoked = {
            let mut grants = self.grants.lock();
            let found = grants.values().find(|grant| grant.id.to_string() == id).cloned();
            found.inspect(|grant| drop(grants.remove(&grant.hash)))
        };
        let Some(grant) = revoked else { return Ok(false) };
        grant.revoked.cancel();
        self.store()?;
        Ok(true)
    }

    /// Notes a use, and stores it now and then, on another thread.
    pub fn used(self: &Arc<Self>, grant: &Grant) {
        if grant.used(Timestamp::now()) {
            let tokens = self.clone();
            tokio::task::spawn_blocking(move || {
                if let Err(error) = tokens.store() {
                    tracing::warn!("the last use of a token could not be stored: {error}");
                }
            });
        }
    }

    fn store(&self) -> std::io::Result<()> {
        let _writing = self.writing.lock();
        file::write(&self.path, &self.list())
    }
}

fn hash(secret: &str) -> Hash {
    Sha256::digest(secret.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_a_restart_as_hashes_only() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = Tokens::open(dir.path()).unwrap();
        let (secret, grant) = tokens.create("4242".into(), None).unwrap();
        assert!(secret.starts_with(PREFIX) && secret.len() == PREFIX.len() + 64);
        assert_eq!(tokens.find(&secret).unwrap().id, grant.id);
        assert!(tokens.find(&secret[..secret.len() - 1]).is_none());
        let stored = std::fs::read_to_string(dir.path().join("tokens.json")).unwrap();
        assert!(!stored.contains(secret.trim_start_matches(PREFIX)), "{stored}");
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(dir.path().join("tokens.json")).unwrap().permissions().mode() & 0o777, 0o600);

        let again = Tokens::open(dir.path()).unwrap();
        assert_eq!(again.find(&secret).unwrap().owner, "4242");
        assert!(again.revoke(&grant.id.to_string()).unwrap() && !again.revoke(&grant.id.to_string()).unwrap());
        assert!(again.find(&secret).is_none());
        assert!(Tokens::open(dir.path()).unwrap().list().is_empty());
    }

    #[test]
    fn an_expired_token_gives_nothing_and_makes_room() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = Tokens::open(dir.path()).unwrap();
        let past = Timestamp::now() - jiff::SignedDuration::from_secs(1);
        let (secret, grant) = tokens.create("4242".into(), Some(past)).unwrap();
        assert!(!grant.is_valid() && tokens.find(&secret).is_none());
        let first = tokens.list()[0].clone();
        for n in 1..TOKENS {
            let mut hash = first.hash;
            hash[..8].copy_from_slice(&n.to_le_bytes());
            let grant = Grant {
                id: Uuid::new_v4(),
                owner: "4242".into(),
                created_at: first.created_at,
                expires_at: None,
                hash,
                last_used_at: Mutex::default(),
                revoked: CancellationToken::new(),
            };
            tokens.grants.lock().insert(hash, Arc::new(grant));
        }
        tokens.create("4242".into(), None).unwrap();
        assert!(matches!(tokens.create("4242".into(), None), Err(CreateError::TooMany)));
    }

    #[test]
    fn a_use_is_news_once_an_hour() {
        let dir = tempfile::tempdir().unwrap();
        let (_, grant) = Tokens::open(dir.path()).unwrap().create("4242".into(), None).unwrap();
        let now = Timestamp::now();
        assert!(grant.used(now) && !grant.used(now));
        assert!(grant.used(now + jiff::SignedDuration::from_secs(3600)));
    }

    #[test]
    fn a_file_that_is_not_ours_is_no_reason_to_forget_tokens() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("tokens.json"), "{").unwrap();
        assert!(Tokens::open(dir.path()).is_err());
    }
}
