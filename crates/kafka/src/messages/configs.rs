//! Configurations of topics and brokers: DescribeConfigs 0 to 4, AlterConfigs 0 to 2 and IncrementalAlterConfigs 0 and 1.

use std::borrow::Cow;

use crate::ErrorCode;
use crate::read::{Malformed, Reader};
use crate::write::Writer;

/// What has a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Resource<'a> {
    /// What it is: [`TOPIC`], [`BROKER`], or something else that clients may name.
    pub kind: i8,
    /// Its name; of a broker, its number.
    pub name: &'a str,
}

/// The kind of a topic.
pub const TOPIC: i8 = 2;

/// The kind of a broker.
pub const BROKER: i8 = 4;

impl<'a> Resource<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self { kind: reader.i8("kind of resource")?, name: reader.string("resource")? })
    }
}

/// What a client wants to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribeConfigsRequest<'a> {
    /// Resources, each with the names that are wanted of its configuration, or `None` for all.
    pub resources: Vec<(Resource<'a>, Option<Vec<&'a str>>)>,
    /// Whether the places are wanted, too, that a value could come from.
    pub include_synonyms: bool,
    /// Whether a description is wanted, too.
    pub include_documentation: bool,
}

/// One value of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigEntry {
    /// Its name.
    pub name: &'static str,
    /// The value.
    pub value: Cow<'static, str>,
    /// Whether it can't be changed.
    pub is_read_only: bool,
    /// Where it comes from.
    pub source: ConfigSource,
    /// What it is.
    pub kind: ConfigType,
    /// What it means.
    pub documentation: &'static str,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum ConfigSource {
    /// It was set for this topic.
    Topic = 1,
    /// It is in the configuration that the broker was started with.
    StaticBroker = 4,
    /// Nobody has set it.
    Default = 5,
}

impl ConfigSource {
    /// The number of the protocol.
    #[must_use]
    pub const fn number(self) -> i8 {
        self as i8
    }
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
#[expect(missing_docs, reason = "the names are those of the protocol")]
pub enum ConfigType {
    Boolean = 1,
    String = 2,
    Int = 3,
    Long = 5,
    Double = 6,
    List = 7,
}

/// The configuration of a resource, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedConfigs<'a> {
    /// The resource.
    pub resource: Resource<'a>,
    /// Its configuration.
    pub result: Result<Vec<ConfigEntry>, (ErrorCode, String)>,
}

impl<'a> DescribeConfigsRequest<'a> {
    /// Reads the body of a request of `version`.
    pub fn read(mut reader: Reader<'a>, version: i16) -> Result<Self, Malformed> {
        let mut resources = Vec::new();
        for _ in 0..reader.array_length("resources")? {
            let resource = Resource::read(&mut reader)?;
            let length = reader.nullable_array("names")?;
            let mut names = length.map(|_| Vec::new());
            for _ in 0..length.unwrap_or(0) {
                names.get_or_insert_default().push(reader.string("name")?);
            }
            reader.skip_tagged_fields("resource")?;
            resources.push((resource, names));
        }
        let include_synonyms = version >= 1 && reader.bool("synonyms")?;
        let include_documentation = version >= 3 && reader.bool("documentation")?;
        reader.skip_tagged_fields("request")?;
        Ok(Self { resources, include_synonyms, include_documentation })
    }

    /// Writes the response to a request of `version`.
    pub fn write_response(
        &self,
        writer: &mut Writer,
        version: i16,
        described: &[DescribedConfigs<'_>],
        throttle_time_ms: i32,
    ) {
        writer.i32(throttle_time_ms);
        writer.array_length(described.len());
        for DescribedConfigs { resource, result } in described {
            let error = result.as_ref().err();
            writer.error(error.map_or(ErrorCode::None, |(error, _)| *error), resource.name);
            writer.nullable_string(error.map(|(_, message)| message.as_str()));
            writer.i8(resource.kind);
            writer.string(resource.name);
            let entries = result.as_deref().unwrap_or_default();
            writer.array_length(entries.len());
            for entry in entries {
                self.write_entry(writer, version, entry);
            }
            writer.tagged_fields_end();
        }
        writer.tagged_fields_end();
    }

    fn write_entry(&self, writer: &mut Writer, version: i16, entry: &ConfigEntry) {
        writer.string(entry.name);
        writer.nullable_string(Some(&entry.value));
        writer.bool(entry.is_read_only);
        match version {
            0 => writer.bool(entry.source == ConfigSource::Default),
            _ => writer.i8(entry.source.number()),
        }
        // Nothing here is secret.
        writer.bool(false);
        if version == 0 {
            return;
        }
        // Each value has one place that it comes from.
        writer.array_length(self.include_synonyms.into());
        if self.include_synonyms {
            writer.string(entry.name);
            writer.nullable_string(Some(&entry.value));
            writer.i8(entry.source.number());
            writer.tagged_fields_end();
        }
        if version >= 3 {
            writer.i8(entry.kind as i8);
            writer.nullable_string(Some(entry.documentation).filter(|_| self.include_documentation));
        }
        writer.tagged_fields_end();
    }
}

/// What a client wants to be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterConfigsRequest<'a> {
    /// Resources, and what is to be done to each.
    pub resources: Vec<(Resource<'a>, Vec<ConfigChange<'a>>)>,
    /// Whether all that is not named gets its default: AlterConfigs says what there is to be, IncrementalAlterConfigs what is to
    /// become different.
    pub resets_others: bool,
    /// Whether the client only wants to know if it could be done.
    pub validate_only: bool,
}

/// A change of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigChange<'a> {
    /// Its name.
    pub name: &'a str,
    /// What is to be done: [`SET`], [`DELETE`], [`APPEND`] or [`SUBTRACT`].
    pub operation: i8,
    /// The new value.
    pub value: Option<&'a str>,
}

/// A value is set.
pub const SET: i8 = 0;

/// A value gets its default.
pub const DELETE: i8 = 1;

/// Elements are added to a list.
pub const APPEND: i8 = 2;

/// Elements are removed from a list.
pub const SUBTRACT: i8 = 3;

impl<'a> AlterConfigsRequest<'a> {
    /// Reads the body of an AlterConfigs of any version.
    pub fn read(reader: Reader<'a>) -> Result<Self, Malformed> {
        Self::read_changes(reader, false)
    }

    /// Reads the body of an IncrementalAlterConfigs of any version.
    pub fn read_incremental(reader: Reader<'a>) -> Result<Self, Malformed> {
        Self::read_changes(reader, true)
    }

    fn read_changes(mut reader: Reader<'a>, is_incremental: bool) -> Result<Self, Malformed> {
        let mut resources = Vec::new();
        for _ in 0..reader.array_length("resources")? {
            let resource = Resource::read(&mut reader)?;
            let mut changes = Vec::new();
            for _ in 0..reader.array_length("configs")? {
                let name = reader.string("config")?;
                let operation = if is_incremental { reader.i8("operation")? } else { SET };
                let value = reader.nullable_string("value")?;
                reader.skip_tagged_fields("config")?;
                changes.push(ConfigChange { name, operation, value });
            }
            reader.skip_tagged_fields("resource")?;
            resources.push((resource, changes));
        }
        let validate_only = reader.bool("validation")?;
        reader.skip_tagged_fields("request")?;
        Ok(Self { resources, resets_others: !is_incremental, validate_only })
    }

    /// Writes the response to a request of any version: what became of each resource.
    pub fn write_response(
        &self,
        writer: &mut Writer,
        results: &[Result<(), (ErrorCode, String)>],
        throttle_time_ms: i32,
    ) {
        writer.i32(throttle_time_ms);
        writer.array_length(self.resources.len());
        for ((resource, _), result) in self.resources.iter().zip(results) {
            let error = result.as_ref().err();
            writer.error(error.map_or(ErrorCode::None, |(error, _)| *error), resource.name);
            writer.nullable_string(error.map(|(_, message)| message.as_str()));
            writer.i8(resource.kind);
            writer.string(resource.name);
            writer.tagged_fields_end();
        }
        writer.tagged_fields_end();
    }
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::alter_configs_request::{AlterConfigsResource, AlterableConfig};
    use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
    use kafka_protocol::messages::incremental_alter_configs_request::{
        AlterConfigsResource as IncrementalResource, AlterableConfig as IncrementalConfig,
    };
    use kafka_protocol::messages::{
        AlterConfigsRequest as ReferenceAlter, AlterConfigsResponse,
        DescribeConfigsRequest as ReferenceDescribe, DescribeConfigsResponse, IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
    };
    use kafka_protocol::protocol::StrBytes;

    use super::*;
    use crate::ApiKey;
    use crate::messages::reference;

    const ORDERS: Resource<'static> = Resource { kind: TOPIC, name: "orders" };

    fn text(text: &'static str) -> StrBytes {
        StrBytes::from_static_str(text)
    }

    /// From Kafka's definitions: the other implementation has no version without sources.
    #[test]
    fn first_version_describes_defaults_instead_of_sources() {
        let resource = [0, 0, 0, 1, 2, 0, 1, b't', 0xff, 0xff, 0xff, 0xff];
        let request = DescribeConfigsRequest::read(Reader::new(&resource, false), 0).unwrap();
        assert_eq!(request.resources, [(Resource { kind: TOPIC, name: "t" }, None)]);
        let entry = |source| ConfigEntry {
            name: "n",
            value: "v".into(),
            is_read_only: false,
            source,
            kind: ConfigType::String,
            documentation: "",
        };
        let entries = vec![entry(ConfigSource::Topic), entry(ConfigSource::Default)];
        let described = DescribedConfigs { resource: request.resources[0].0, result: Ok(entries) };
        let body = reference::body(ApiKey::DescribeConfigs, 0, |writer| {
            request.write_response(writer, 0, &[described], 0);
        });
        let head = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0xff, 0xff, 2, 0, 1, b't', 0, 0, 0, 2];
        let name_and_value = [0, 1, b'n', 0, 1, b'v'];
        // Read-only, the default, secret.
        assert_eq!(body, [&head[..], &name_and_value, &[0, 0, 0], &name_and_value, &[0, 1, 0]].concat());
    }

    #[test]
    fn configurations_are_described_in_every_version() {
        for version in 1..=4 {
            for names in [None, Some(vec!["retention.ms"])] {
                let resource = DescribeConfigsResource::default()
                    .with_resource_type(TOPIC)
                    .with_resource_name(text("orders"))
                    .with_configuration_keys(names.clone().map(|_| vec![text("retention.ms")]));
                let mut request =
                    ReferenceDescribe::default().with_resources(vec![resource]).with_include_synonyms(true);
                if version >= 3 {
                    request = request.with_include_documentation(true);
                }
                let expected = DescribeConfigsRequest {
                    resources: vec![(ORDERS, names)],
                    include_synonyms: true,
                    include_documentation: version >= 3,
                };
                let read =
                    |reader: Reader<'_>| Ok(DescribeConfigsRequest::read(reader, version)? == expected);
                reference::read_message(ApiKey::DescribeConfigs, version, &request, read, |it| assert!(it));
            }
            let entry = ConfigEntry {
                name: "retention.ms",
                value: "7".into(),
                is_read_only: true,
                source: ConfigSource::Default,
                kind: ConfigType::Long,
                documentation: "how long",
            };
            let described = [
                DescribedConfigs { resource: ORDERS, result: Ok(vec![entry]) },
                DescribedConfigs {
                    resource: Resource { kind: BROKER, name: "7" },
                    result: Err((ErrorCode::InvalidRequest, "none".to_owned())),
                },
            ];
            let request = DescribeConfigsRequest {
                resources: Vec::new(),
                include_synonyms: true,
                include_documentation: true,
            };
            let response: DescribeConfigsResponse =
                reference::message(ApiKey::DescribeConfigs, version, |writer| {
                    request.write_response(writer, version, &described, 0);
                });
            let [orders, broker] = &response.results[..] else { panic!("two resources") };
            let entry = &orders.configs[0];
            assert_eq!((entry.name.as_str(), entry.value.as_deref()), ("retention.ms", Some("7")));
            assert_eq!((entry.read_only, entry.config_source, entry.synonyms.len()), (true, 5, 1));
            if version >= 3 {
                assert_eq!((entry.config_type, entry.documentation.as_deref()), (5, Some("how long")));
            }
            assert_eq!((broker.error_code, broker.resource_type), (42, 4));
        }
    }

    #[test]
    fn configurations_are_altered_in_every_version() {
        let results = [Err((ErrorCode::InvalidConfig, "no".to_owned()))];
        for version in 0..=2 {
            let config =
                AlterableConfig::default().with_name(text("retention.ms")).with_value(Some(text("7")));
            let resource = AlterConfigsResource::default()
                .with_resource_type(TOPIC)
                .with_resource_name(text("orders"))
                .with_configs(vec![config]);
            let request = ReferenceAlter::default().with_resources(vec![resource]).with_validate_only(true);
            let change = ConfigChange { name: "retention.ms", operation: SET, value: Some("7") };
            let expected = AlterConfigsRequest {
                resources: vec![(ORDERS, vec![change])],
                resets_others: true,
                validate_only: true,
            };
            let read = |reader: Reader<'_>| Ok(AlterConfigsRequest::read(reader)? == expected);
            reference::read_message(ApiKey::AlterConfigs, version, &request, read, |it| assert!(it));
            let response: AlterConfigsResponse =
                reference::message(ApiKey::AlterConfigs, version, |writer| {
                    expected.write_response(writer, &results, 0);
                });
            let result = &response.responses[0];
            assert_eq!((result.error_code, result.resource_name.as_str()), (40, "orders"));
        }
        for version in 0..=1 {
            let config =
                IncrementalConfig::default().with_name(text("retention.ms")).with_config_operation(DELETE);
            let resource = IncrementalResource::default()
                .with_resource_type(TOPIC)
                .with_resource_name(text("orders"))
                .with_configs(vec![config.with_value(None)]);
            let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
            let change = ConfigChange { name: "retention.ms", operation: DELETE, value: None };
            let expected = AlterConfigsRequest {
                resources: vec![(ORDERS, vec![change])],
                resets_others: false,
                validate_only: false,
            };
            let read = |reader: Reader<'_>| Ok(AlterConfigsRequest::read_incremental(reader)? == expected);
            let key = ApiKey::IncrementalAlterConfigs;
            reference::read_message(key, version, &request, read, |it| assert!(it));
            let response: IncrementalAlterConfigsResponse = reference::message(key, version, |writer| {
                expected.write_response(writer, &results, 0);
            });
            assert_eq!(response.responses[0].error_message.as_deref(), Some("no"));
        }
    }
}
