//! What can go wrong, by consequence.

use std::path::PathBuf;

/// The daemon can't start with this database.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Written by a later version.
    #[error("{} was written by a newer agentctl (schema {found}, this one knows {known}); use that version, or another state folder", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema version.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// A database of another program.
    #[error("{} is a database of another program; move it away, or use another state folder", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// No database, or a damaged one.
    #[error("{} is damaged or no SQLite database ({detail}); move it away to start with an empty audit", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        detail: String,
    },
    /// A link, a folder, a device.
    #[error("{} is not a regular file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The folder or a file can't be used.
    #[error("cannot use {}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// SQLite can't open, read or write it.
    #[error("cannot open {}", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
}

/// A claim that is not made. Nothing may be delivered for it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// Another claim of this request counts already.
    #[error("another claim of this request is recorded")]
    AlreadyClaimed,
    /// It can't be recorded. Whatever of it may be on disk is made not to count.
    #[error("the claim cannot be recorded: {0}")]
    Unavailable(String),
}

/// An end that is not recorded, or a read that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuditError {
    /// There is no such claim in `dispatching`, or the new result is no final one. Nothing was changed.
    #[error("no such claim waits for its result")]
    Conflict,
    /// The database can't be used. A claim stays `dispatching`.
    #[error("the audit cannot be used: {0}")]
    Unavailable(String),
}

/// The text for a reply that the audit thread never gave.
pub(super) const LOST: &str = "the audit thread has stopped or failed";

/// How bad an error of SQLite is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Severity {
    /// It concerns one row; trying it again is useless.
    Row,
    /// Full, read-only, locked: the same may work later.
    Later,
    /// Nothing may be trusted before the database was closed, opened and checked.
    Broken,
}

pub(super) fn severity(error: &rusqlite::Error) -> Severity {
    use rusqlite::ErrorCode as Code;
    match error.sqlite_error_code() {
        Some(Code::DiskFull | Code::ReadOnly | Code::DatabaseBusy | Code::DatabaseLocked | Code::OutOfMemory | Code::SchemaChanged) => {
            Severity::Later
        }
        Some(
            Code::SystemIoFailure
            | Code::DatabaseCorrupt
            | Code::NotADatabase
            | Code::CannotOpen
            | Code::PermissionDenied
            | Code::FileLockingProtocolFailed
            | Code::NoLargeFileSupport
            | Code::InternalMalfunction,
        ) => Severity::Broken,
        _ => Severity::Row,
    }
}
