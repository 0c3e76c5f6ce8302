//! Where the socket and the state are, and that they are nobody else's.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::unistd::getuid;

/// A folder that we must not use, or can't.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// It is a link, or no folder.
    #[error("{0} is not a folder (links are refused)")]
    NotAFolder(PathBuf),
    /// Somebody else's.
    #[error("{path} belongs to user {owner}, not to us")]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// Its owner.
        owner: u32,
    },
    /// Others can get in.
    #[error("{path} is open to others (mode {mode:o}); run: chmod 700 {path}")]
    Open {
        /// The folder.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The system says no.
    #[error("cannot use {path}")]
    Io {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The control socket: as given, else `$XDG_RUNTIME_DIR/agentctl/control.sock`, else `/tmp/agentctl-<uid>/control.sock`.
pub fn socket(given: Option<PathBuf>) -> PathBuf {
    given.unwrap_or_else(|| match absolute_variable("XDG_RUNTIME_DIR") {
        Some(dir) => dir.join("agentctl/control.sock"),
        None => PathBuf::from(format!("/tmp/agentctl-{}/control.sock", getuid())),
    })
}

/// The socket of MCP clients, beside the control socket: `mcp.sock`, or for another name than `control.sock` that name with `.mcp`.
pub fn mcp_socket(control: &Path) -> PathBuf {
    let mut name = control.file_name().unwrap_or_default().to_owned();
    if name == "control.sock" {
        return control.with_file_name("mcp.sock");
    }
    name.push(".mcp");
    control.with_file_name(name)
}

/// The state folder: as given, else `$XDG_STATE_HOME/agentctl`, else `~/.local/state/agentctl`.
pub fn state_dir(given: Option<PathBuf>) -> PathBuf {
    given.unwrap_or_else(|| match absolute_variable("XDG_STATE_HOME") {
        Some(dir) => dir.join("agentctl"),
        None => std::env::home_dir().unwrap_or_else(|| PathBuf::from("/")).join(".local/state/agentctl"),
    })
}

/// The configuration file: as given, else `$XDG_CONFIG_HOME/agentctl/config.toml`, else `~/.config/agentctl/config.toml`.
pub fn config(given: Option<PathBuf>) -> PathBuf {
    given.unwrap_or_else(|| match absolute_variable("XDG_CONFIG_HOME") {
        Some(dir) => dir.join("agentctl/config.toml"),
        None => std::env::home_dir().unwrap_or_else(|| PathBuf::from("/")).join(".config/agentctl/config.toml"),
    })
}

/// The folder of a socket path.
pub fn socket_folder(socket: &Path) -> PathBuf {
    match socket.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Makes a folder of mode 0700, with its parents, or checks the one that is there.
///
/// # Errors
/// See [`FolderError`].
pub fn make_private(folder: &Path) -> Result<(), FolderError> {
    let io = |source| FolderError::Io { path: folder.to_owned(), source };
    match DirBuilder::new().recursive(true).mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(io(error)),
        _ => {}
    }
    check_private(folder)
}

/// Checks that a folder is a real one, ours, and closed to others.
///
/// # Errors
/// See [`FolderError`].
pub fn check_private(folder: &Path) -> Result<(), FolderError> {
    let meta = fs::symlink_metadata(folder).map_err(|source| FolderError::Io { path: folder.to_owned(), source })?;
    if !meta.is_dir() {
        return Err(FolderError::NotAFolder(folder.to_owned()));
    }
    if meta.uid() != getuid().as_raw() {
        return Err(FolderError::Foreign { path: folder.to_owned(), owner: meta.uid() });
    }
    let mode = meta.permissions().mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(FolderError::Open { path: folder.to_owned(), mode });
    }
    Ok(())
}

fn absolute_variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_made_private_and_others_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let made = dir.path().join("a/b");
        make_private(&made).unwrap();
        assert_eq!(fs::metadata(&made).unwrap().permissions().mode() & 0o777, 0o700);
        fs::set_permissions(&made, fs::Permissions::from_mode(0o750)).unwrap();
        assert!(matches!(make_private(&made), Err(FolderError::Open { mode: 0o750, .. })));
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path().join("a"), &link).unwrap();
        assert!(matches!(make_private(&link), Err(FolderError::NotAFolder(_))));
    }
}
