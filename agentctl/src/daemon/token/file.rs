//! The file of tokens: replaced whole, readable by nobody else.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Grant, Hash};

const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u32,
    tokens: Vec<StoredToken>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredToken {
    id: Uuid,
    owner: String,
    sha256: String,
    created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_used_at: Option<Timestamp>,
}

pub(super) fn read(path: &Path) -> anyhow::Result<Vec<Grant>> {
    let text = match std::fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text.with_context(|| format!("cannot read {}", path.display()))?,
    };
    let stored: Stored = serde_json::from_slice(&text).with_context(|| format!("{} is no file of tokens of ours", path.display()))?;
    anyhow::ensure!(stored.version == VERSION, "{} was written by a newer version", path.display());
    let damaged = || format!("{} is damaged: a hash can't be read", path.display());
    stored.tokens.into_iter().map(|token| Grant::try_from(token).ok().with_context(damaged)).collect()
}

/// Replaces the file: a crash leaves the old one or the new one.
pub(super) fn write(path: &Path, grants: &[Arc<Grant>]) -> io::Result<()> {
    let stored = Stored { version: VERSION, tokens: grants.iter().map(|grant| StoredToken::from(&**grant)).collect() };
    let new = path.with_extension("json.new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(&serde_json::to_vec_pretty(&stored)?)?;
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn unhex(text: &str) -> Option<Hash> {
    let mut hash = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (byte, digits) in hash.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(hash)
}

impl From<&Grant> for StoredToken {
    fn from(grant: &Grant) -> Self {
        Self {
            id: grant.id,
            owner: grant.owner.clone(),
            sha256: hex(&grant.hash),
            created_at: grant.created_at,
            expires_at: grant.expires_at,
            last_used_at: grant.last_used_at(),
        }
    }
}

impl TryFrom<StoredToken> for Grant {
    type Error = ();

    fn try_from(stored: StoredToken) -> Result<Self, ()> {
        Ok(Self {
            id: stored.id,
            owner: stored.owner,
            created_at: stored.created_at,
            expires_at: stored.expires_at,
            hash: unhex(&stored.sha256).ok_or(())?,
            last_used_at: parking_lot::Mutex::new(stored.last_used_at),
            revoked: tokio_util::sync::CancellationToken::new(),
        })
    }
}
