//! Operations that a client may do on a resource, as it can ask for with descriptions of topics, groups and the cluster (KIP-430).

use crate::write::Writer;

/// A set of operations, or that none were asked for. The bits are the numbers of `org.apache.kafka.common.acl.AclOperation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthorizedOperations(i32);

impl AuthorizedOperations {
    /// The client has not asked, or the resource can't be described.
    pub const NOT_ASKED: Self = Self(i32::MIN);
    /// No operation.
    pub const NONE: Self = Self(0);
    /// Records and offsets can be read.
    pub const READ: Self = Self(1 << 3);
    /// Records can be written.
    pub const WRITE: Self = Self(1 << 4);
    /// It can be created; of the cluster, any topic.
    pub const CREATE: Self = Self(1 << 5);
    /// It can be deleted.
    pub const DELETE: Self = Self(1 << 6);
    /// It can be changed.
    pub const ALTER: Self = Self(1 << 7);
    /// It can be described.
    pub const DESCRIBE: Self = Self(1 << 8);
    /// What brokers do.
    pub const CLUSTER_ACTION: Self = Self(1 << 9);
    /// Its configuration can be described.
    pub const DESCRIBE_CONFIGS: Self = Self(1 << 10);
    /// Its configuration can be changed.
    pub const ALTER_CONFIGS: Self = Self(1 << 11);
    /// Producers can be idempotent.
    pub const IDEMPOTENT_WRITE: Self = Self(1 << 12);

    /// Returns these operations and others.
    #[must_use]
    pub const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// The number of the protocol.
    #[must_use]
    pub const fn bits(self) -> i32 {
        self.0
    }

    pub(super) fn write(self, writer: &mut Writer) {
        writer.i32(self.0);
    }
}
