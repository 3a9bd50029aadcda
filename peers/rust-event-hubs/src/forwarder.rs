//! What is done with the events of a partition: gathered to batches, spread over the partitions of the destination, sent
//! to all of them at once, and checkpointed when every send was accepted.
//!
//! A send that fails stops the partition without a checkpoint. The processor, which still owns it, opens it again from
//! the last one.

use std::error::Error;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use azure_messaging_eventhubs::error::ErrorKind;
use azure_messaging_eventhubs::models::{EventData, ReceivedEventData};
use azure_messaging_eventhubs::processor::PartitionClient;
use azure_messaging_eventhubs::{EventDataBatchOptions, ProducerClient};
use futures::StreamExt as _;
use futures::future::try_join_all;

use crate::settings::Settings;

/// Forwards what partitions have.
#[derive(Clone)]
pub struct Forwarder {
    producer: Arc<ProducerClient>,
    settings: Arc<Settings>,
}

/// Why a partition stopped.
#[derive(Debug)]
enum Stopped {
    /// Someone else has it now, or the client is closing.
    Lost,
    /// A send failed on purpose.
    OnPurpose,
    /// Something failed.
    Failed(Box<dyn Error + Send + Sync>),
}

impl Forwarder {
    pub fn new(producer: ProducerClient, settings: Arc<Settings>) -> Self {
        Self { producer: Arc::new(producer), settings }
    }

    /// Forwards the events of one partition until it stops, and gives it back.
    pub async fn run(self, partition: Arc<PartitionClient>) {
        let id = partition.get_partition_id().to_owned();
        let stopped = self.forward_all(&partition).await;
        if let Stopped::Failed(error) = &stopped {
            eprintln!("partition {id} stops: {error}");
        }
        if !matches!(stopped, Stopped::Lost) {
            tokio::time::sleep(self.settings.restart_after).await;
        }
        // What is not closed is never opened again.
        if let Some(partition) = Arc::into_inner(partition)
            && let Err(error) = partition.close().await
        {
            eprintln!("partition {id} can't be closed: {error}");
        }
    }

    async fn forward_all(&self, partition: &PartitionClient) -> Stopped {
        let mut random = Random::new(self.settings.seed, partition.get_partition_id());
        let mut events = partition.stream_events();
        loop {
            let batch = match self.gather(&mut events).await {
                Ok(batch) => batch,
                Err(stopped) => return stopped,
            };
            if let Err(stopped) = self.forward(&batch, &mut random).await {
                return stopped;
            }
            if let Some(last) = batch.last()
                && let Err(error) = partition.update_checkpoint(last).await
            {
                return Stopped::Failed(error.into());
            }
        }
    }

    /// The next batch: a full one, or what has come when the first of it has waited long enough.
    async fn gather<E>(&self, events: &mut E) -> Result<Vec<ReceivedEventData>, Stopped>
    where
        E: futures::Stream<Item = azure_messaging_eventhubs::Result<ReceivedEventData>> + Unpin,
    {
        let received = |event: Option<azure_messaging_eventhubs::Result<_>>| match event {
            None => Err(Stopped::Lost),
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) if matches!(error.kind, ErrorKind::ConsumerDisconnected(_)) => {
                Err(Stopped::Lost)
            }
            Some(Err(error)) => Err(Stopped::Failed(error.into())),
        };
        let mut batch = Vec::with_capacity(self.settings.batch);
        batch.push(received(events.next().await)?);
        let mut enough = pin!(tokio::time::sleep(self.settings.max_wait));
        while batch.len() < self.settings.batch {
            tokio::select! {
                biased;
                event = events.next() => batch.push(received(event)?),
                () = &mut enough => break,
            }
        }
        Ok(batch)
    }

    async fn forward(&self, batch: &[ReceivedEventData], random: &mut Random) -> Result<(), Stopped> {
        let mut groups: Vec<Vec<EventData>> = vec![Vec::new(); self.settings.fan_out];
        for event in batch {
            groups[random.below(self.settings.fan_out)].push(event.event_data().clone());
        }
        let mut sends = Vec::with_capacity(self.settings.fan_out);
        for (partition, group) in groups.into_iter().enumerate() {
            if !group.is_empty() {
                let fails = random.happens(self.settings.failure_ratio);
                sends.push(self.send(partition, group, fails));
            }
        }
        try_join_all(sends).await.map(|_all| ())
    }

    async fn send(&self, partition: usize, group: Vec<EventData>, fails: bool) -> Result<(), Stopped> {
        if fails {
            return Err(Stopped::OnPurpose);
        }
        let options = || {
            Some(EventDataBatchOptions {
                partition_id: Some(partition.to_string()),
                ..EventDataBatchOptions::default()
            })
        };
        let sending = async {
            let mut batch = self.producer.create_batch(options()).await?;
            for event in group {
                if !batch.try_add_event_data(event.clone(), None)? {
                    self.producer.send_batch(batch, None).await?;
                    batch = self.producer.create_batch(options()).await?;
                    if !batch.try_add_event_data(event, None)? {
                        return Err("an event is too large for a batch".into());
                    }
                }
            }
            self.producer.send_batch(batch, None).await?;
            Ok::<(), Box<dyn Error + Send + Sync>>(())
        };
        // The SDK can miss the outcome of a send, and then waits for it for ever.
        match tokio::time::timeout(SEND_PATIENCE, sending).await {
            Ok(sent) => sent.map_err(Stopped::Failed),
            Err(_) => Err(Stopped::Failed(format!("no outcome of a send within {SEND_PATIENCE:?}").into())),
        }
    }
}

/// Random numbers that a seed determines (SplitMix64).
struct Random(u64);

impl Random {
    fn new(seed: u64, partition: &str) -> Self {
        let partition =
            partition.bytes().fold(0_u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ partition)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// Whether something of this probability happens.
    fn happens(&mut self, probability: f64) -> bool {
        probability > 0.0 && (self.next() >> 11) as f64 / ((1_u64 << 53) as f64) < probability
    }
}

/// A send that takes longer is taken for failed.
const SEND_PATIENCE: Duration = Duration::from_secs(60);
