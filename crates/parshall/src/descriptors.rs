//! How many files and sockets the process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit as far as the process itself may. It is low by default for programs that cannot cope with large numbers;
/// this one takes a descriptor for each client.
pub(crate) fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        // Some systems do not allow as much as they say. The service goes by what it really has.
        let _ = setrlimit(Resource::Nofile, raised);
    }
}
