//! A folder of a role's own on a machine that the orchestrator's folders are not on.

use std::{
    hash::{BuildHasher as _, RandomState},
    path::{Path, PathBuf},
};

use super::RoleError;

/// An empty folder among the system's temporary ones. Dropped, it is removed with what is in it.
#[derive(Debug)]
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn create() -> Result<Self, RoleError> {
        let name = format!("parshall-{:016x}", RandomState::new().hash_one(std::process::id()));
        let path = std::env::temp_dir().join(name);
        // Fails if there is such a folder already.
        std::fs::create_dir(&path)
            .map_err(|source| RoleError::System { what: "a temporary folder", source })?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, folder = %self.0.display(), "the role's temporary folder remains");
        }
    }
}
