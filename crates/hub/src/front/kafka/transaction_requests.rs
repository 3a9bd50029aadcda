//! What producers with transactions ask, and operators of these.

use access::Right;
use kafka::frame::RequestHeader;
use kafka::messages::producer_id::{self, InitProducerIdRequest};
use kafka::messages::transaction_admin::{
    ListTransactionsRequest, read_describe, write_describe_response, write_list_response,
};
use kafka::messages::transactions::{
    AddOffsetsRequest, AddPartitionsRequest, EndTransactionRequest, TransactionalOffsetsRequest, write_result,
};
use kafka::read::Reader;
use kafka::{ApiKey, ErrorCode, Malformed};
use partition_log::disk::CommitNumber;

use super::group_reader::GroupReader;
use super::kept_answer::{KeptAnswer, Until, unless_kept};
use super::output::Output;
use super::requests::{TransactionTask, check_partitions};
use super::session::Session;
use super::topics::PartitionChecks;
use crate::groups::Changed;
use crate::namespace::Namespace;
use crate::service::Coordinators;
use crate::transactions::{Ended, Producer, TransactionState};

/// What it takes to answer.
#[derive(Debug)]
pub(super) struct TransactionRequests<'a> {
    pub(super) namespace: &'a Namespace,
    pub(super) coordinators: &'a Coordinators,
    pub(super) session: &'a Session,
}

impl TransactionRequests<'_> {
    /// Answers a request, or gives the answer that waits.
    pub(super) fn answer(
        &self,
        header: &RequestHeader<'_>,
        (key, task): (ApiKey, TransactionTask),
        body: Reader<'_>,
        output: &mut Output,
    ) -> Result<Option<KeptAnswer>, Malformed> {
        let version = header.version;
        match task {
            TransactionTask::InitProducerId => self.begin_producer(header, body, output),
            TransactionTask::AddPartitionsToTxn => self.add_partitions(header, body, output),
            TransactionTask::AddOffsetsToTxn => {
                let request = AddOffsetsRequest::read(body)?;
                let Changed { results, commit } = match self.may_have_transactions() {
                    true => self.coordinators.transactions.add_group(&request.transaction, request.group_id),
                    false => refused(),
                };
                let results = results.map_err(|error| for_version(error, version >= FIRST_FENCED));
                Ok(KeptAnswer::after(Until::Commit(commit), header, key, output, |writer, is_kept| {
                    let id = request.transaction.transactional_id;
                    write_result(writer, id, error_of(&results, is_kept), 0);
                }))
            }
            TransactionTask::TxnOffsetCommit => {
                let request = TransactionalOffsetsRequest::read(body, version)?;
                check_partitions(request.partitions.len())?;
                let principal = self.session.principal();
                let checks = PartitionChecks::new(self.namespace, self.session, Right::Listen);
                let exists = |topic: &str, index| checks.check(topic, index);
                let reader = GroupReader::new(self.namespace, self.session);
                let refused = if !self.may_have_transactions() {
                    Some(ErrorCode::TransactionalIdAuthorizationFailed)
                } else if !reader.may_commit(&self.coordinators.groups, &request.member) {
                    Some(ErrorCode::GroupAuthorizationFailed)
                } else {
                    None
                };
                let Changed { results, commit } = match refused {
                    None => self.coordinators.transactions.add_offsets(&request, principal, exists),
                    Some(error) => {
                        Changed { results: vec![error; request.partitions.len()], commit: CommitNumber::DONE }
                    }
                };
                // Groups have an error of their own for producers that are fenced.
                let errors: Vec<_> = results.into_iter().map(|error| for_version(error, false)).collect();
                Ok(KeptAnswer::after(Until::Commit(commit), header, key, output, |writer, is_kept| {
                    request.write_response(writer, &unless_kept(&errors, is_kept), 0);
                }))
            }
            TransactionTask::EndTxn => self.end(header, body, output),
            TransactionTask::DescribeTransactions => {
                let ids = read_describe(body)?;
                let may_know = |topic: &str| self.session.knows(topic);
                let may_have_transactions = self.may_have_transactions();
                let describe = |id: &str| match may_have_transactions {
                    true => self.coordinators.transactions.describe(id, may_know),
                    false => Err(ErrorCode::TransactionalIdAuthorizationFailed),
                };
                let described: Vec<_> = ids.into_iter().map(|id| (id, describe(id))).collect();
                output.answer(key, version, header.correlation_id, |writer| {
                    write_describe_response(writer, &described, 0);
                });
                Ok(None)
            }
            TransactionTask::ListTransactions => {
                let request = ListTransactionsRequest::read(body, version)?;
                let listed = match self.may_have_transactions() {
                    true => self.coordinators.transactions.list(&request),
                    false => Vec::new(),
                };
                let is_unknown =
                    |name: &&str| TransactionState::ALL.iter().all(|state| state.name() != *name);
                let unknown: Vec<_> = request.states.iter().copied().filter(is_unknown).collect();
                output.answer(key, version, header.correlation_id, |writer| {
                    write_list_response(writer, &unknown, &listed, 0);
                });
                Ok(None)
            }
        }
    }

    fn begin_producer(
        &self,
        header: &RequestHeader<'_>,
        body: Reader<'_>,
        output: &mut Output,
    ) -> Result<Option<KeptAnswer>, Malformed> {
        let request = InitProducerIdRequest::read(body, header.version)?;
        let is_allowed = request.transactional_id.is_none() || self.may_have_transactions();
        let Changed { results, commit } = match is_allowed {
            true => self.coordinators.transactions.begin_producer(&request, self.session.principal()),
            false => refused(),
        };
        let results = results
            .map(|Producer { id, epoch }| (id, epoch))
            .map_err(|error| for_version(error, header.version >= FIRST_BEGUN_FENCED));
        let until = Until::Commit(commit);
        Ok(KeptAnswer::after(until, header, ApiKey::InitProducerId, output, |writer, is_kept| {
            let results = if is_kept { results } else { Err(ErrorCode::CoordinatorNotAvailable) };
            producer_id::write_response(writer, request.transactional_id, results, 0);
        }))
    }

    fn add_partitions(
        &self,
        header: &RequestHeader<'_>,
        body: Reader<'_>,
        output: &mut Output,
    ) -> Result<Option<KeptAnswer>, Malformed> {
        let request = AddPartitionsRequest::read(body)?;
        let all = |error| vec![error; request.partitions.len()];
        let checks = PartitionChecks::new(self.namespace, self.session, Right::Send);
        let check = |(topic, index): &(&str, i32)| checks.check(topic, *index);
        let checked: Vec<_> = request.partitions.iter().map(check).collect();
        let (errors, commit) = if !self.may_have_transactions() {
            (all(ErrorCode::TransactionalIdAuthorizationFailed), Until::DONE)
        } else if checked.iter().any(Result::is_err) {
            // All of them or none.
            let error = |checked: &Result<(), _>| checked.err().unwrap_or(ErrorCode::OperationNotAttempted);
            (checked.iter().map(error).collect(), Until::DONE)
        } else {
            let transactions = &self.coordinators.transactions;
            let Changed { results, commit } =
                transactions.add_partitions(&request.transaction, &request.partitions);
            let error = results.err().map(|error| for_version(error, header.version >= FIRST_FENCED));
            (all(error.unwrap_or(ErrorCode::None)), Until::Commit(commit))
        };
        Ok(KeptAnswer::after(commit, header, ApiKey::AddPartitionsToTxn, output, |writer, is_kept| {
            request.write_response(writer, &unless_kept(&errors, is_kept), 0);
        }))
    }

    fn end(
        &self,
        header: &RequestHeader<'_>,
        body: Reader<'_>,
        output: &mut Output,
    ) -> Result<Option<KeptAnswer>, Malformed> {
        let request = EndTransactionRequest::read(body)?;
        let ended = match self.may_have_transactions() {
            true => self.coordinators.transactions.end(&request.transaction, request.commits),
            false => Err(ErrorCode::TransactionalIdAuthorizationFailed),
        };
        let (result, until) = match ended {
            Ok(Ended::Done) => (Ok(()), Until::DONE),
            Ok(Ended::Waits(receiver)) => (Ok(()), Until::Told(receiver)),
            Err(error) => (Err(for_version(error, header.version >= FIRST_FENCED)), Until::DONE),
        };
        Ok(KeptAnswer::after(until, header, ApiKey::EndTxn, output, |writer, is_kept| {
            let id = request.transaction.transactional_id;
            write_result(writer, id, error_of(&result, is_kept), 0);
        }))
    }

    /// Whether the client may have transactions: it does, if it may write anywhere.
    fn may_have_transactions(&self) -> bool {
        self.namespace.hubs().iter().any(|hub| self.session.allows(hub.name(), Right::Send))
    }
}

fn refused<T>() -> Changed<Result<T, ErrorCode>> {
    let results = Err(ErrorCode::TransactionalIdAuthorizationFailed);
    Changed { results, commit: CommitNumber::DONE }
}

fn error_of(result: &Result<(), ErrorCode>, is_kept: bool) -> ErrorCode {
    match result {
        Err(error) => *error,
        Ok(()) if is_kept => ErrorCode::None,
        Ok(()) => ErrorCode::CoordinatorNotAvailable,
    }
}

/// Clients of older versions know an older error for a producer that another one has taken the place of.
const fn for_version(error: ErrorCode, knows_fenced: bool) -> ErrorCode {
    match error {
        ErrorCode::ProducerFenced if !knows_fenced => ErrorCode::InvalidProducerEpoch,
        error => error,
    }
}

/// From this version on of the requests within a transaction clients know that a producer can be fenced.
const FIRST_FENCED: i16 = 2;

/// The same for InitProducerId.
const FIRST_BEGUN_FENCED: i16 = 4;
