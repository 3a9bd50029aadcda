//! The variables that say who a process is.

use std::collections::BTreeMap;
use std::fmt;

/// Where variables are looked up. What azure_identity itself looks up, which are the endpoint of a managed identity and the `PATH` of the
/// command lines, it looks up in the process's in any case.
#[derive(Clone, Default)]
pub enum Environment {
    /// Those of the process.
    #[default]
    Process,
    /// These.
    Given(BTreeMap<String, String>),
}

impl Environment {
    /// The value of a variable that is set and not empty.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        let value = match self {
            Self::Process => std::env::var(name).ok(),
            Self::Given(variables) => variables.get(name).cloned(),
        };
        value.filter(|value| !value.is_empty())
    }
}

/// The names alone: some values are secrets.
impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process => f.write_str("Process"),
            Self::Given(variables) => f.debug_set().entries(variables.keys()).finish(),
        }
    }
}
