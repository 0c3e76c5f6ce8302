//! The database file: opened, created, recognised, checked.

use super::error::{OpenError, Severity, severity};
use super::limits::BUSY;
use rusqlite::{Connection, OpenFlags};
use std::fs::{File, OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The schema that this version writes.
pub const SCHEMA_VERSION: i64 = 2;
/// "agct": marks the file as ours.
pub(super) const APPLICATION_ID: i64 = 0x6167_6374;
const SCHEMA: &str = include_str!("schema.sql");
const OWNER_ONLY: u32 = 0o600;

/// Opens the database in `dir`, and creates it if there is none.
pub(super) fn open(dir: &Path) -> Result<(PathBuf, Connection), OpenError> {
    let dir = dir.canonicalize().map_err(|source| OpenError::Io { path: dir.to_owned(), source })?;
    let path = dir.join("audit.db");
    create(&dir, &path).map_err(|source| OpenError::Io { path: path.clone(), source })?;
    if !path.symlink_metadata().is_ok_and(|meta| meta.is_file()) {
        return Err(OpenError::NotAFile { path });
    }
    let conn = connect(&path).and_then(|conn| recognise(&conn).map(|kind| (conn, kind)));
    let (conn, kind) = conn.map_err(|source| explain(&path, source))?;
    match kind {
        Kind::Foreign => return Err(OpenError::Foreign { path }),
        Kind::Ours(found) if found > SCHEMA_VERSION => return Err(OpenError::Newer { path, found, known: SCHEMA_VERSION }),
        Kind::Ours(1) => prepare(&conn).and_then(|()| migrate(&conn)),
        // No version below 1 was ever written.
        Kind::Ours(found) if found < SCHEMA_VERSION => {
            return Err(OpenError::Corrupt { path, detail: format!("it has the impossible schema version {found}") });
        }
        Kind::Ours(_) => prepare(&conn),
        Kind::Empty => prepare(&conn).and_then(|()| create_schema(&conn)),
    }
    .and_then(|()| complete(&conn))
    .map_err(|source| explain(&path, source))?;
    protect(&path).map_err(|source| OpenError::Io { path: path.clone(), source })?;
    Ok((path, conn))
}

/// Looks at the database in `dir` without changing it, also while a daemon has it; `None` if there is none.
///
/// # Errors
/// A newer, foreign or damaged file.
pub fn inspect(dir: &Path) -> Result<Option<String>, OpenError> {
    let path = dir.join("audit.db");
    if !path.exists() {
        return Ok(None);
    }
    let look = || {
        let conn = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NOFOLLOW)?;
        conn.busy_timeout(BUSY)?;
        let kind = recognise(&conn)?;
        let verdict: String = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        let requests: i64 =
            if matches!(kind, Kind::Ours(_)) { conn.query_row("SELECT count(*) FROM requests", [], |row| row.get(0))? } else { 0 };
        Ok((kind, verdict, requests))
    };
    match look().map_err(|source| explain(&path, source))? {
        (Kind::Foreign, ..) => Err(OpenError::Foreign { path }),
        (Kind::Ours(found), ..) if found > SCHEMA_VERSION => Err(OpenError::Newer { path, found, known: SCHEMA_VERSION }),
        (_, verdict, _) if verdict != "ok" => Err(OpenError::Corrupt { path, detail: verdict }),
        (Kind::Empty, ..) => Ok(Some("it is empty".to_owned())),
        (Kind::Ours(version), _, requests) => Ok(Some(format!("schema {version}, {requests} request(s)"))),
    }
}

/// Opens the same file again after an error, and checks it before anything is written.
pub(super) fn reopen(path: &Path) -> Result<Connection, rusqlite::Error> {
    let conn = connect(path)?;
    prepare(&conn)?;
    complete(&conn)?;
    // After a failed fsync the kernel may have forgotten pages of the log; the checkpoint writes all of them anew, and
    // then starts the log afresh.
    let busy: i64 = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    if busy != 0 {
        return Err(failure(rusqlite::ffi::SQLITE_BUSY, "the log could not be emptied"));
    }
    let verdict: String = conn.query_row("PRAGMA quick_check(resolutions)", [], |row| row.get(0))?;
    if verdict != "ok" {
        return Err(failure(rusqlite::ffi::SQLITE_CORRUPT, &verdict));
    }
    Ok(conn)
}

/// A connection that only reads.
pub(super) fn connect_reader(path: &Path) -> Result<Connection, rusqlite::Error> {
    let conn = connect(path)?;
    conn.pragma_update(None, "query_only", true)?;
    Ok(conn)
}

pub(super) fn failure(code: i32, text: &str) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), Some(text.to_owned()))
}

fn connect(path: &Path) -> Result<Connection, rusqlite::Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let conn = Connection::open_with_flags(path, flags)?;
    conn.busy_timeout(BUSY)?;
    conn.set_prepared_statement_cache_capacity(64);
    Ok(conn)
}

/// Before SQLite sees the file, so that it and what SQLite puts beside it are never readable by others.
fn create(dir: &Path, path: &Path) -> std::io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(OWNER_ONLY).open(path) {
        Ok(file) => {
            file.sync_all()?;
            File::open(dir)?.sync_all()
        }
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(e) => Err(e),
    }
}

fn protect(path: &Path) -> std::io::Result<()> {
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        match std::fs::set_permissions(PathBuf::from(name), Permissions::from_mode(OWNER_ONLY)) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
    Ok(())
}

enum Kind {
    Empty,
    Ours(i64),
    Foreign,
}

fn recognise(conn: &Connection) -> Result<Kind, rusqlite::Error> {
    let application: i64 = conn.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    let version: i64 = conn.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let tables: i64 = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(match (application, version, tables) {
        (APPLICATION_ID, version, _) => Kind::Ours(version),
        (0, 0, 0) => Kind::Empty,
        _ => Kind::Foreign,
    })
}

fn prepare(conn: &Connection) -> Result<(), rusqlite::Error> {
    let mode: String = conn.query_row("PRAGMA journal_mode=WAL", [], |row| row.get(0))?;
    if !mode.eq_ignore_ascii_case("wal") {
        return Err(failure(rusqlite::ffi::SQLITE_CANTOPEN, "this file system cannot hold a write-ahead log"));
    }
    // The audit thread says when to checkpoint.
    conn.query_row("PRAGMA wal_autocheckpoint=0", [], |_| Ok(()))?;
    // 1 MiB of pages: twice as much makes nothing faster, and would fill up over the days.
    conn.execute_batch("PRAGMA synchronous=FULL; PRAGMA temp_store=MEMORY; PRAGMA cache_size=-1024;")
}

fn create_schema(conn: &Connection) -> Result<(), rusqlite::Error> {
    conn.execute_batch(&format!(
        "BEGIN IMMEDIATE; {SCHEMA} PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={SCHEMA_VERSION}; COMMIT;"
    ))
}

/// From version 1: executions have a witness.
fn migrate(conn: &Connection) -> Result<(), rusqlite::Error> {
    conn.execute_batch(&format!(
        "BEGIN IMMEDIATE; ALTER TABLE executions ADD COLUMN witness TEXT; ALTER TABLE executions ADD COLUMN findings TEXT;
         PRAGMA user_version={SCHEMA_VERSION}; COMMIT;"
    ))
}

/// All tables are there.
fn complete(conn: &Connection) -> Result<(), rusqlite::Error> {
    for table in ["meta", "tasks", "sessions", "executions", "requests", "resolutions", "failed_attempts"] {
        if !conn.table_exists(None, table)? {
            return Err(failure(rusqlite::ffi::SQLITE_CORRUPT, &format!("it has no table {table}")));
        }
    }
    Ok(())
}

pub(super) fn explain(path: &Path, source: rusqlite::Error) -> OpenError {
    use rusqlite::ErrorCode as Code;
    let path = path.to_owned();
    match source.sqlite_error_code() {
        Some(Code::DatabaseCorrupt | Code::NotADatabase) => OpenError::Corrupt { path, detail: source.to_string() },
        // Text that doesn't parse, a missing column: not what this version wrote.
        _ if severity(&source) == Severity::Row => OpenError::Corrupt { path, detail: source.to_string() },
        _ => OpenError::Sqlite { path, source },
    }
}

/// Device and inode of a file: another file in its place has another.
pub(super) fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    let meta = std::fs::symlink_metadata(path).ok()?;
    Some((meta.dev(), meta.ino()))
}
