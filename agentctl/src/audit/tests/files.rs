use super::*;
use std::os::unix::fs::PermissionsExt;

fn open(dir: &TempDir) -> Result<(Audit, Recovered), OpenError> {
    Audit::open(dir.path(), Limits::default(), at(0))
}

fn with_sql(sql: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    rusqlite::Connection::open(dir.path().join("audit.db")).unwrap().execute_batch(sql).unwrap();
    dir
}

#[test]
fn nobody_else_can_read_it() {
    let bench = Bench::new();
    bench.claim(&claim_of(&row(1))).unwrap();
    for name in ["audit.db", "audit.db-wal", "audit.db-shm"] {
        let mode = std::fs::metadata(bench.dir.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn a_newer_one_is_refused_and_left_alone() {
    let bench = Bench::new();
    bench.sql("PRAGMA user_version=3");
    bench.close();
    let error = open(&bench.dir).unwrap_err();
    assert!(matches!(error, OpenError::Newer { found: 3, known: 2, .. }), "{error}");
    assert!(error.to_string().contains("audit.db"));
}

#[test]
fn one_of_another_program_is_refused_and_left_alone() {
    for sql in ["CREATE TABLE notes (x)", "PRAGMA application_id=77; CREATE TABLE notes (x)"] {
        let dir = with_sql(sql);
        let before = std::fs::read(dir.path().join("audit.db")).unwrap();
        assert!(matches!(open(&dir), Err(OpenError::Foreign { .. })));
        assert_eq!(std::fs::read(dir.path().join("audit.db")).unwrap(), before);
    }
}

#[test]
fn a_damaged_one_is_named() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("audit.db"), "this is no database, but it is long enough to be looked at ".repeat(100)).unwrap();
    let error = open(&dir).unwrap_err();
    assert!(matches!(error, OpenError::Corrupt { .. }) && error.to_string().contains("audit.db"), "{error}");

    let bench = Bench::new();
    bench.claim(&claim_of(&row(1))).unwrap();
    bench.close();
    let path = bench.dir.path().join("audit.db");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..4096]).unwrap();
    let error = open(&bench.dir).unwrap_err();
    assert!(matches!(error, OpenError::Corrupt { .. }), "{error:?}");

    let missing = with_sql("PRAGMA application_id=1634165620; PRAGMA user_version=1; CREATE TABLE meta (x)");
    assert!(matches!(open(&missing), Err(OpenError::Corrupt { .. })));
}

#[test]
fn a_link_or_a_folder_is_refused() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::os::unix::fs::symlink(other.path().join("elsewhere"), dir.path().join("audit.db")).unwrap();
    assert!(matches!(open(&dir), Err(OpenError::NotAFile { .. })));
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("audit.db")).unwrap();
    assert!(matches!(open(&dir), Err(OpenError::NotAFile { .. })));
    assert!(matches!(Audit::open(&dir.path().join("none"), Limits::default(), at(0)), Err(OpenError::Io { .. })));
}

#[test]
fn an_empty_file_is_a_new_one() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("audit.db"), "").unwrap();
    open(&dir).unwrap();
}

#[test]
fn a_result_is_final_in_the_database_too() {
    let bench = Bench::new();
    let claim = claim_of(&row(1));
    bench.claim(&claim).unwrap();
    bench.finish(finish_of(&claim)).unwrap();
    let error = bench.poke(|store| store.connection().unwrap().execute("UPDATE resolutions SET result = 'failed'", []).unwrap_err());
    assert!(error.to_string().contains("this claim has its result"));
}
