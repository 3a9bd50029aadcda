//! What a producer with transactions asks of the coordinators: of that of its transactional id, and of that of the group whose offsets
//! its transactions bring with them.
//!
//! Each step is asked once at a time and may be asked again: to do it twice is to do it once. So an answer that is lost is asked for
//! again, the one to the end of a transaction among them.

use std::sync::Arc;

use kafka::messages::find_coordinator::{GROUP_KEY, TRANSACTION_KEY};
use kafka::messages::group::MemberRef;
use kafka::messages::offset_commit::CommittedOffset;
use kafka::messages::outcome::{Outcome, PartitionOutcomes};
use kafka::messages::producer_id::{InitProducerIdRequest, InitProducerIdResponse};
use kafka::messages::transaction_admin::{self, FoundTransaction};
use kafka::messages::transactions::{
    AddOffsetsRequest, AddPartitionsRequest, EndTransactionRequest, TransactionRef,
    TransactionalOffsetsRequest,
};
use kafka::write::Writer;
use kafka::{ApiKey, ErrorCode, Malformed};

use super::TransactionOptions;
use crate::event::PartitionId;
use crate::kafka::native::connection::{Answer, Connection};
use crate::kafka::native::endpoint::Endpoint;
use crate::kafka::native::error::{malformed, refused, refused_for_good};
use crate::kafka::native::find_coordinator::{self, NotFound};
use crate::service::ServiceError;
use crate::sink::ErrorClass;

/// Both coordinators, and who the producer is.
#[derive(Debug)]
pub(super) struct Coordinators {
    endpoint: Arc<Endpoint>,
    options: Arc<TransactionOptions>,
    of_id: Coordinator,
    of_group: Coordinator,
    /// Id and epoch, if there are any.
    producer: (i64, i16),
}

/// One of the things that are asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Be the producer of the transactional id: the next one after whoever was.
    Begin,
    /// Have partitions of the topic in the transaction.
    AddPartitions(Vec<usize>),
    /// Have offsets of the source in it.
    AddOffsets(Vec<(PartitionId, i64)>),
    /// End it.
    End { commits: bool },
    /// After the cluster has aborted a transaction that was open for too long, be the one that may [begin](Self::Begin) next.
    TakeUp,
}

/// Why a step is not done.
#[derive(Debug)]
pub(super) enum Trouble {
    /// Not yet, or it is not known: the same has to be asked again.
    Again(ServiceError),
    /// The transaction can't commit.
    Abort(ServiceError),
    /// The epoch is over: another one has begun, or the cluster has aborted the transaction by itself.
    Fenced(ServiceError),
    /// The producer is of no use any more.
    Fail(ServiceError),
}

/// A coordinator and the connection to it.
#[derive(Debug)]
struct Coordinator {
    key: String,
    key_type: i8,
    connection: Option<Connection<()>>,
}

impl Coordinators {
    /// Nothing is asked yet.
    pub(super) fn new(endpoint: Arc<Endpoint>, options: Arc<TransactionOptions>) -> Self {
        let coordinator =
            |key: &str, key_type| Coordinator { key: key.to_owned(), key_type, connection: None };
        Self {
            of_id: coordinator(&options.id, TRANSACTION_KEY),
            of_group: coordinator(&options.group, GROUP_KEY),
            endpoint,
            options,
            producer: NOBODY,
        }
    }

    /// Who numbers what is sent, and its epoch.
    pub(super) const fn producer(&self) -> (i64, i16) {
        self.producer
    }

    /// Takes a step.
    ///
    /// # Errors
    /// It is not done, or not known to be.
    pub(super) async fn take(&mut self, step: &Step) -> Result<(), Trouble> {
        match step {
            Step::Begin => self.begin().await,
            Step::AddPartitions(partitions) => self.add_partitions(partitions).await,
            Step::AddOffsets(offsets) => {
                self.add_group().await?;
                self.add_offsets(offsets).await
            }
            Step::End { commits } => self.end(*commits).await,
            Step::TakeUp => self.take_up().await,
        }
    }

    async fn begin(&mut self) -> Result<(), Trouble> {
        let Self { endpoint, options, of_id, producer, .. } = self;
        let (producer_id, producer_epoch) = *producer;
        let timeout = endpoint.settings.produce.transaction_timeout.as_millis();
        let request = InitProducerIdRequest {
            transactional_id: Some(&options.id),
            transaction_timeout_ms: i32::try_from(timeout).unwrap_or(i32::MAX),
            producer_id,
            producer_epoch,
        };
        let write = |writer: &mut Writer, version| request.write(writer, version);
        // Since version 3 it is said who the producer was, so that one whose place was taken does not take it back.
        let read = |answer: &Answer| InitProducerIdResponse::read(answer.reader());
        let answered = of_id.ask(endpoint, ApiKey::InitProducerId, (3, 4), write, read).await?;
        match answered.producer {
            Ok(begun) => {
                *producer = begun;
                Ok(())
            }
            Err(code) => Err(self.trouble(code, "the producer can't begin")),
        }
    }

    async fn add_partitions(&mut self, partitions: &[usize]) -> Result<(), Trouble> {
        let endpoint = &self.endpoint;
        let partitions = partitions.iter().map(|partition| (endpoint.topic.as_str(), *partition as i32));
        let request = AddPartitionsRequest {
            transaction: transaction(&self.options.id, self.producer),
            partitions: partitions.collect(),
        };
        let count = request.partitions.len();
        let write = |writer: &mut Writer, _version| request.write(writer);
        let codes = |answer: &Answer| outcome_of(&PartitionOutcomes::read(answer.reader())?, count);
        let code = self.of_id.ask(endpoint, ApiKey::AddPartitionsToTxn, (0, 3), write, codes).await?;
        let what = format!("the partitions of {} are not taken into the transaction", endpoint.topic);
        if code == ErrorCode::InvalidProducerIdMapping {
            // Ids that are not used for long are forgotten (`transactional.id.expiration.ms`), and nobody has them then. Whoever had
            // taken this one would have another epoch, which is another error.
            self.producer = NOBODY;
            return Err(Trouble::Abort(refused_for_good(code, what)));
        }
        self.check(code, &what)
    }

    async fn add_group(&mut self) -> Result<(), Trouble> {
        let request = AddOffsetsRequest {
            transaction: transaction(&self.options.id, self.producer),
            group_id: &self.options.group,
        };
        let write = |writer: &mut Writer, _version| request.write(writer);
        let read = |answer: &Answer| Outcome::read(answer.reader());
        let outcome = self.of_id.ask(&self.endpoint, ApiKey::AddOffsetsToTxn, (0, 3), write, read).await?;
        self.check(outcome.error, "the group is not taken into the transaction")
    }

    async fn add_offsets(&mut self, offsets: &[(PartitionId, i64)]) -> Result<(), Trouble> {
        let Self { endpoint, options, of_group, producer, .. } = self;
        let partitions = offsets.iter().map(|(partition, offset)| CommittedOffset {
            topic: &options.topic,
            index: partition.0.cast_signed(),
            offset: *offset,
            leader_epoch: -1,
            metadata: "",
        });
        let request = TransactionalOffsetsRequest {
            transaction: transaction(&options.id, *producer),
            // No member: whoever has the transactional id is who may commit.
            member: MemberRef { group_id: &options.group, generation: -1, member_id: "", instance_id: None },
            partitions: partitions.collect(),
        };
        let write = |writer: &mut Writer, version| request.write(writer, version);
        let codes = |answer: &Answer| outcome_of(&PartitionOutcomes::read(answer.reader())?, offsets.len());
        let code = of_group.ask(endpoint, ApiKey::TxnOffsetCommit, (0, 3), write, codes).await?;
        let what = format!("the offsets of {} are not taken into the transaction", self.options.topic);
        self.check(code, &what)
    }

    async fn end(&mut self, commits: bool) -> Result<(), Trouble> {
        if self.producer == NOBODY && !commits {
            return Ok(());
        }
        let request =
            EndTransactionRequest { transaction: transaction(&self.options.id, self.producer), commits };
        let write = |writer: &mut Writer, _version| request.write(writer);
        let read = |answer: &Answer| Outcome::read(answer.reader());
        let outcome = self.of_id.ask(&self.endpoint, ApiKey::EndTxn, (0, 3), write, read).await?;
        match outcome.error {
            // Nothing is open: the coordinator had not begun it.
            ErrorCode::InvalidTxnState if !commits => Ok(()),
            code => match self.check(code, "the transaction does not end") {
                // Whether it has is not known any more. What has committed is what the next one who begins finds.
                Err(Trouble::Abort(error)) => Err(Trouble::Fail(error)),
                checked => checked,
            },
        }
    }

    /// A transaction that the cluster aborts leaves the next epoch, and nobody has that unless another one has begun since. If one does so at
    /// the same time, one of both fails: that it is this epoch and no other is said again when the producer begins.
    async fn take_up(&mut self) -> Result<(), Trouble> {
        let (producer_id, epoch) = self.producer;
        let (id, of_id, endpoint) = (&self.options.id, &mut self.of_id, &self.endpoint);
        let write = |writer: &mut Writer, _version| transaction_admin::write_describe(writer, &[id]);
        let aborted = |it: &FoundTransaction<'_>| {
            let is_aborted = ["PrepareEpochFence", "PrepareAbort", "CompleteAbort"].contains(&it.state);
            (it.producer_id == producer_id && is_aborted).then_some(it.producer_epoch)
        };
        let read = |answer: &Answer| {
            let found = transaction_admin::read_describe_response(answer.reader())?;
            let found = found.first().ok_or(Malformed("transactional ids: there is none"))?;
            Ok(match found.error {
                ErrorCode::None => Ok(aborted(found)),
                error => Err(error),
            })
        };
        match of_id.ask(endpoint, ApiKey::DescribeTransactions, (0, 0), write, read).await {
            Ok(Ok(Some(next))) if Some(next) == epoch.checked_add(1) => {
                self.producer = (producer_id, next);
                Ok(())
            }
            Ok(Err(code)) if code.is_retriable() => {
                Err(Trouble::Again(refused(code, "who has the transactional id is not known")))
            }
            Err(Trouble::Again(error)) => Err(Trouble::Again(error)),
            // Old brokers don't say, and others say that it is somebody else.
            Ok(_) | Err(_) => Err(Trouble::Fail(self.fenced(ErrorCode::ProducerFenced))),
        }
    }

    fn check(&self, code: ErrorCode, what: &str) -> Result<(), Trouble> {
        match code {
            ErrorCode::None => Ok(()),
            code => Err(self.trouble(code, what)),
        }
    }

    /// What a producer is told whose epoch is over.
    fn fenced(&self, code: ErrorCode) -> ServiceError {
        let what = format!(
            "another relay has begun with the transactional id {}; what is committed is whole, and a relay that is started again goes on \
             behind it",
            self.options.id
        );
        refused_for_good(code, what)
    }

    /// What a refusal means.
    fn trouble(&self, code: ErrorCode, what: &str) -> Trouble {
        let TransactionOptions { id, group, .. } = &*self.options;
        match code {
            ErrorCode::ProducerFenced | ErrorCode::InvalidProducerEpoch => Trouble::Fenced(self.fenced(code)),
            ErrorCode::InvalidProducerIdMapping
            | ErrorCode::TransactionCoordinatorFenced
            | ErrorCode::TransactionalIdAuthorizationFailed
            | ErrorCode::TopicAuthorizationFailed
            | ErrorCode::GroupAuthorizationFailed
            | ErrorCode::ClusterAuthorizationFailed
            | ErrorCode::InvalidTransactionTimeout
            | ErrorCode::InvalidGroupId
            | ErrorCode::UnsupportedVersion => {
                let what = format!("{what} (transactional id {id}, consumer group {group})");
                Trouble::Fail(refused_for_good(code, what))
            }
            code if code.is_retriable() => Trouble::Again(refused(code, what)),
            code => Trouble::Abort(refused_for_good(code, what)),
        }
    }
}

impl Coordinator {
    /// Asks, once more if the connection had been kept and is gone by now.
    async fn ask<T>(
        &mut self,
        endpoint: &Arc<Endpoint>,
        key: ApiKey,
        (oldest, newest): (i16, i16),
        write: impl Fn(&mut Writer, i16),
        read: impl Fn(&Answer) -> Result<T, Malformed>,
    ) -> Result<T, Trouble>
    where
        T: Answered,
    {
        loop {
            let (mut connection, is_new) = match self.connection.take() {
                Some(connection) => (connection, false),
                None => (connect(endpoint, &self.key, self.key_type).await?, true),
            };
            let version = connection.version(key, oldest, newest)?;
            let answer = match connection.ask(key, version, |writer| write(writer, version)).await {
                Err(_stale) if !is_new => continue,
                answer => answer?,
            };
            let answered = read(&answer).map_err(malformed)?;
            if !answered.says_elsewhere() {
                self.connection = Some(connection);
            }
            return Ok(answered);
        }
    }
}

/// Connects to the coordinator of a key.
async fn connect(endpoint: &Arc<Endpoint>, key: &str, key_type: i8) -> Result<Connection<()>, Trouble> {
    find_coordinator::connect(endpoint, key, key_type).await.map_err(|error| match error {
        NotFound::Error(error) => error.into(),
        NotFound::Refused(code) => {
            let what = format!("there is no coordinator of {key}");
            match code.is_retriable() {
                true => Trouble::Again(refused(code, what)),
                false => Trouble::Fail(refused_for_good(code, what)),
            }
        }
    })
}

/// What a coordinator has answered.
trait Answered {
    /// Whether it says that another broker is the coordinator.
    fn says_elsewhere(&self) -> bool;
}

impl Answered for ErrorCode {
    fn says_elsewhere(&self) -> bool {
        matches!(self, Self::NotCoordinator | Self::CoordinatorNotAvailable)
    }
}

impl Answered for Outcome {
    fn says_elsewhere(&self) -> bool {
        self.error.says_elsewhere()
    }
}

impl Answered for Result<Option<i16>, ErrorCode> {
    fn says_elsewhere(&self) -> bool {
        self.is_err_and(|code| code.says_elsewhere())
    }
}

impl Answered for InitProducerIdResponse {
    fn says_elsewhere(&self) -> bool {
        self.producer.is_err_and(|code| code.says_elsewhere())
    }
}

impl From<ServiceError> for Trouble {
    fn from(error: ServiceError) -> Self {
        match error.class {
            ErrorClass::Fatal => Self::Fail(error),
            _ => Self::Again(error),
        }
    }
}

/// No producer.
const NOBODY: (i64, i16) = (-1, -1);

fn transaction(id: &str, (producer_id, producer_epoch): (i64, i16)) -> TransactionRef<'_> {
    TransactionRef { transactional_id: id, producer_id, producer_epoch }
}

/// What became of all partitions: the first error that says why, if there is one.
fn outcome_of(outcomes: &PartitionOutcomes<'_>, count: usize) -> Result<ErrorCode, Malformed> {
    if outcomes.partitions.len() != count {
        return Err(Malformed("partitions: one is missing"));
    }
    let errors = || outcomes.partitions.iter().map(|outcome| outcome.error);
    let says_why = |code: &ErrorCode| !matches!(code, ErrorCode::None | ErrorCode::OperationNotAttempted);
    let is_error = |code: &ErrorCode| *code != ErrorCode::None;
    Ok(errors().find(says_why).or_else(|| errors().find(is_error)).unwrap_or(ErrorCode::None))
}

#[cfg(test)]
mod tests {
    use kafka::messages::outcome::PartitionOutcome;

    use super::*;

    #[test]
    fn of_several_partitions_the_one_counts_that_says_why() {
        let outcome = |errors: &[ErrorCode]| {
            let partitions = (0..).zip(errors);
            let partitions = partitions
                .map(|(index, error)| PartitionOutcome { topic: "orders", index, error: *error })
                .collect();
            outcome_of(&PartitionOutcomes { partitions, throttle_time_ms: 0 }, 3)
                .map_err(|Malformed(what)| what)
        };
        let (none, later) = (ErrorCode::None, ErrorCode::OperationNotAttempted);
        assert_eq!(outcome(&[none, none, none]), Ok(none));
        assert_eq!(outcome(&[none, later, none]), Ok(later));
        let why = ErrorCode::UnknownTopicOrPartition;
        assert_eq!(outcome(&[later, why, later]), Ok(why));
        assert!(outcome(&[none, none]).is_err(), "one of them may be in no transaction");
    }
}
