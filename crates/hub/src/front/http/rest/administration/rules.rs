//! Rules as descriptions, and as subscriptions have them.

use ::rest::administration::document::Element;
use ::rest::administration::rule::{
    CORRELATION, CorrelationDescription, FilterDescription, RuleDescription, SqlDescription,
};
use partition_log::UnixTime;
use queue_store::rules::{
    CorrelationFilter, DEFAULT_RULE_NAME, Filter, Rule, SqlAction, SqlError, SqlFilter,
};

use super::super::refusal::Refusal;
use super::describe::time_of;
use super::invalid;

/// The rule of this name that a client describes.
///
/// # Errors
/// It makes no sense.
pub(super) fn read(name: &str, element: &Element) -> Result<Rule, Refusal> {
    let description = RuleDescription::read(element)
        .map_err(|error| invalid(format!("The request is invalid: {error}.")))?;
    of(name.to_owned(), description)
}

/// The rule that a subscription is to begin with, if its description says one.
///
/// # Errors
/// It makes no sense.
pub(super) fn default_rule(element: &Element) -> Result<Option<Rule>, Refusal> {
    let Some(element) = element.child("DefaultRuleDescription") else {
        return Ok(None);
    };
    let description = RuleDescription::read(element)
        .map_err(|error| invalid(format!("The request is invalid: {error}.")))?;
    let name = description.name.clone().unwrap_or_else(|| DEFAULT_RULE_NAME.to_owned());
    of(name, description).map(Some)
}

/// What is said of a rule of a subscription that was made then.
pub(super) fn describe(rule: &Rule, subscription_created_at: UnixTime) -> RuleDescription {
    let filter = match &rule.filter {
        Filter::True => FilterDescription::True,
        Filter::False => FilterDescription::False,
        Filter::Sql(filter) => FilterDescription::Sql(SqlDescription {
            expression: filter.text().to_owned(),
            parameters: filter.parameters().to_vec(),
        }),
        Filter::Correlation(filter) => FilterDescription::Correlation(described_correlation(filter)),
    };
    RuleDescription {
        name: Some(rule.name.clone()),
        filter: Some(filter),
        action: rule.action.as_ref().map(|action| SqlDescription {
            expression: action.text().to_owned(),
            parameters: action.parameters().to_vec(),
        }),
        created_at: Some(time_of(
            rule.created_at_unix_ms.map_or(subscription_created_at, UnixTime::from_milliseconds),
        )),
    }
}

fn of(name: String, description: RuleDescription) -> Result<Rule, Refusal> {
    let malformed = |error: SqlError| invalid(format!("The rule '{name}' can't be read: {error}."));
    let filter = match description.filter {
        None | Some(FilterDescription::True) => Filter::True,
        Some(FilterDescription::False) => Filter::False,
        Some(FilterDescription::Sql(sql)) => {
            Filter::Sql(SqlFilter::with_parameters(sql.expression, sql.parameters).map_err(malformed)?)
        }
        Some(FilterDescription::Correlation(filter)) => Filter::Correlation(correlation(filter)),
    };
    let action = description
        .action
        .map(|action| SqlAction::with_parameters(action.expression, action.parameters))
        .transpose()
        .map_err(malformed)?;
    Ok(Rule { name, filter, action, created_at_unix_ms: None })
}

fn correlation(description: CorrelationDescription) -> CorrelationFilter {
    let CorrelationDescription { system, properties } = description;
    let field = |name: &str| {
        let mut system = system.iter();
        system.find(|(known, _)| *known == name).map(|(_, value)| value.clone())
    };
    let [correlation_id, message_id, to, reply_to, label, session_id, reply_to_session_id, content_type] =
        CORRELATION.map(field);
    CorrelationFilter {
        correlation_id,
        message_id,
        to,
        reply_to,
        label,
        session_id,
        reply_to_session_id,
        content_type,
        properties,
    }
}

fn described_correlation(filter: &CorrelationFilter) -> CorrelationDescription {
    let values = [
        &filter.correlation_id,
        &filter.message_id,
        &filter.to,
        &filter.reply_to,
        &filter.label,
        &filter.session_id,
        &filter.reply_to_session_id,
        &filter.content_type,
    ];
    let system = CORRELATION.into_iter().zip(values);
    CorrelationDescription {
        system: system.filter_map(|(name, value)| Some((name, value.clone()?))).collect(),
        properties: filter.properties.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_described_as_they_were_read() {
        for content in [
            r#"<Filter i:type="TrueFilter"/>"#,
            r#"<Filter i:type="FalseFilter"/>"#,
            r#"<Filter i:type="SqlFilter"><SqlExpression>a = @b</SqlExpression><Parameters><KeyValueOfstringanyType>
               <Key>@b</Key><Value i:type="p:int">5</Value></KeyValueOfstringanyType></Parameters></Filter>
               <Action i:type="SqlRuleAction"><SqlExpression>SET c = 1</SqlExpression></Action>"#,
            r#"<Filter i:type="CorrelationFilter"><ContentType>text</ContentType><CorrelationId>c</CorrelationId></Filter>"#,
        ] {
            let text = format!(
                r#"<RuleDescription xmlns:i="http://www.w3.org/2001/XMLSchema-instance">{content}<Name>n</Name></RuleDescription>"#
            );
            let element = Element::parse(&text).unwrap();
            let rule = read("n", &element).unwrap();
            let made = UnixTime::from_milliseconds(5_000);
            let mut described = describe(&rule, made);
            assert_eq!(described.created_at.take(), Some(time_of(made)));
            assert_eq!(described, RuleDescription::read(&element).unwrap(), "{content}");
        }
    }

    #[test]
    fn conditions_that_are_none_are_refused() {
        for expression in ["a =", "a = @missing"] {
            let text = format!(
                r#"<RuleDescription xmlns:i="http://www.w3.org/2001/XMLSchema-instance">
                   <Filter i:type="SqlFilter"><SqlExpression>{expression}</SqlExpression></Filter></RuleDescription>"#
            );
            assert_eq!(read("n", &Element::parse(&text).unwrap()).unwrap_err().status, 400);
        }
    }
}
