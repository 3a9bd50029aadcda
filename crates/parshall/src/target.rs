//! Services that exist and are measured by `parshall run`: what their hubs are like, found before anything is started.

use access::ConnectionString;
use connect::event_hubs::{EventHubsOptions, ManagementClient};
use connect::kafka;
use lab::scenario::{Case, Footprint, FoundHub, Hub, KafkaClient, KafkaCluster, Namespace, Target};

use crate::connection_advice::ConnectionSettings;
use crate::exit::CommandError;
use crate::logging;

/// Asks the hubs of targets that exist for their partitions. A target that can't be reached or refuses is an error now,
/// before anything is started.
pub(crate) async fn find(hubs: Vec<(Target, Hub)>) -> Result<Vec<FoundHub>, CommandError> {
    let mut found: Vec<FoundHub> = Vec::new();
    for (target, hub) in hubs {
        if found.iter().any(|known| known.target == target && known.name == hub.name) {
            continue;
        }
        let partitions = match &target {
            // The checks of the scenario refuse a malformed connection string at its place.
            Target::Namespace(namespace) => match namespace.connection_string.reveal().parse() {
                Ok(connection_string) => partitions(namespace, connection_string, &hub).await?,
                Err(_) => continue,
            },
            Target::Kafka(cluster) => partitions_of_topic(cluster, &hub).await?,
            Target::Embedded | Target::Command(_) => continue,
        };
        found.push(FoundHub { target, name: hub.name, partitions });
    }
    Ok(found)
}

async fn partitions(
    namespace: &Namespace,
    connection_string: ConnectionString,
    hub: &Hub,
) -> Result<u32, CommandError> {
    let unavailable = |error: &dyn std::error::Error| CommandError::Unavailable {
        message: format!("the hub {} of the target can't be used: {error}", hub.name),
    };
    let mut options =
        EventHubsOptions::new(connection_string, Some(&hub.name)).map_err(|error| unavailable(&error))?;
    options.certificate_authority.clone_from(&namespace.certificate_authority);
    let mut client = ManagementClient::connect(options).await.map_err(|error| CommandError::Refused {
        message: format!("the hub {} of the target can't be used: {error}", hub.name),
        advice: ConnectionSettings { transport: None, ..ConnectionSettings::of_section("target") }
            .advice(&error.condition),
    })?;
    let properties = client.hub_properties().await.map_err(|error| unavailable(&error))?;
    client.close().await;
    Ok(u32::try_from(properties.partition_ids.len()).unwrap_or(u32::MAX))
}

/// How many partitions a topic has, asked by a client that takes the cluster's properties.
async fn partitions_of_topic(cluster: &KafkaCluster, hub: &Hub) -> Result<u32, CommandError> {
    let properties = cluster.client_properties();
    let clients =
        [KafkaClient::Native, KafkaClient::Librdkafka].into_iter().filter_map(KafkaClient::available);
    let options = clients.map(|client| properties.options(&hub.name, client));
    // What none of them takes is a mistake that the checks of the scenario show at its place.
    let Some(options) = options.into_iter().find(|options| options.check_sink().is_ok()) else {
        return Ok(hub.partitions);
    };
    let sink = kafka::connect_sink(&options).await.map_err(|error| CommandError::Refused {
        message: format!("the topic {} of the target can't be used: {error}", hub.name),
        advice: None,
    })?;
    let partitions = sink.destinations();
    sink.shut_down().await;
    Ok(partitions)
}

/// Says on standard error what the run sends to services that exist, and what it leaves there.
pub(crate) fn announce(cases: &[Case]) {
    let mut announced: Vec<&Target> = Vec::new();
    for case in cases {
        let target = &case.parameters.target;
        if !target.exists() || announced.contains(&target) {
            continue;
        }
        announced.push(target);
        let cases: Vec<&Case> = cases.iter().filter(|case| case.parameters.target == *target).collect();
        let text = Footprint { host: &name(target), cases: &cases }.to_string();
        logging::tell("INFO", &text);
    }
}

/// What a target is called in results: never with its key.
pub(crate) fn name(target: &Target) -> String {
    match target {
        Target::Embedded => "embedded".to_owned(),
        Target::Command(service) => service.name().to_owned(),
        Target::Kafka(cluster) => cluster.bootstrap.clone(),
        Target::Namespace(namespace) => namespace
            .connection_string
            .reveal()
            .parse::<ConnectionString>()
            .map_or_else(|_| "namespace".to_owned(), |parsed| parsed.endpoint.host().to_owned()),
    }
}
