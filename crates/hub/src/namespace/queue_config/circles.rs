//! Finding queues and topics that forward in a circle.

use super::{QueueConfig, QueueConfigError, TopicConfig};
use std::collections::HashMap;

/// Whether nothing that is forwarded comes back to where it was. Dead letters may: each time takes a failure.
///
/// # Errors
/// The first circle, with the place of its first step and all of its steps.
pub(super) fn check_for_circles(
    queues: &[QueueConfig],
    topics: &[TopicConfig],
) -> Result<(), QueueConfigError> {
    let steps = steps(queues, topics);
    let mut of_entity: HashMap<String, Vec<usize>> = HashMap::new();
    for (index, step) in steps.iter().enumerate() {
        let key = step.from.to_ascii_lowercase();
        of_entity.entry(key).or_default().push(index);
    }
    let after = |step: usize| {
        let next = of_entity.get(&steps[step].to.to_ascii_lowercase());
        next.map_or(&[][..], Vec::as_slice)
    };
    let mut stands = vec![Standing::Unseen; steps.len()];
    for first in 0..steps.len() {
        if stands[first] != Standing::Unseen {
            continue;
        }
        // The steps so far, each with how many of those after it were gone into.
        let mut way = vec![(first, 0)];
        stands[first] = Standing::OnTheWay;
        while let Some((step, gone_into)) = way.last_mut() {
            let Some(&next) = after(*step).get(*gone_into) else {
                stands[*step] = Standing::Over;
                way.pop();
                continue;
            };
            *gone_into += 1;
            match stands[next] {
                Standing::Over => {}
                Standing::Unseen => {
                    stands[next] = Standing::OnTheWay;
                    way.push((next, 0));
                }
                Standing::OnTheWay => {
                    let begin = way.iter().position(|(step, _)| *step == next);
                    let circle = way[begin.unwrap_or_default()..].iter();
                    let circle: Vec<&Step<'_>> = circle.map(|(step, _)| &steps[*step]).collect();
                    return Err(mistake(&circle));
                }
            }
        }
    }
    Ok(())
}

/// What a queue or subscription forwards.
struct Step<'a> {
    path: String,
    /// The queue, or the topic of the subscription.
    from: &'a str,
    subscription: Option<&'a str>,
    to: &'a str,
}

/// What is known of a step while all are gone through.
#[derive(Clone, Copy, PartialEq)]
enum Standing {
    Unseen,
    OnTheWay,
    /// Nothing after it leads into a circle.
    Over,
}

fn steps<'a>(queues: &'a [QueueConfig], topics: &'a [TopicConfig]) -> Vec<Step<'a>> {
    let mut steps = Vec::new();
    for (index, queue) in queues.iter().enumerate() {
        steps.extend(queue.options.forward_to.as_deref().map(|to| Step {
            path: format!("queues[{index}].forward_to"),
            from: &queue.name,
            subscription: None,
            to,
        }));
    }
    for (index, topic) in topics.iter().enumerate() {
        for (number, subscription) in topic.subscriptions.iter().enumerate() {
            steps.extend(subscription.options.forward_to.as_deref().map(|to| Step {
                path: format!("topics[{index}].subscriptions[{number}].forward_to"),
                from: &topic.name,
                subscription: Some(&subscription.name),
                to,
            }));
        }
    }
    steps
}

fn mistake(circle: &[&Step<'_>]) -> QueueConfigError {
    let mut text = String::new();
    for step in circle {
        text.push_str(step.from);
        if let Some(subscription) = step.subscription {
            text.push_str("/Subscriptions/");
            text.push_str(subscription);
        }
        text.push_str(" -> ");
    }
    QueueConfigError {
        path: circle[0].path.clone(),
        reason: format!("messages would be forwarded in a circle: {text}{}", circle[0].from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(name: &str, to: &str) -> QueueConfig {
        let mut queue = QueueConfig::new(name);
        queue.options.forward_to = (!to.is_empty()).then(|| to.to_owned());
        queue
    }

    fn topic(name: &str, subscriptions: &[(&str, &str)]) -> TopicConfig {
        let names = subscriptions.iter().map(|(name, _)| *name);
        let mut topic = TopicConfig::new(name, names.collect::<Vec<_>>());
        for (subscription, (_, to)) in topic.subscriptions.iter_mut().zip(subscriptions) {
            subscription.options.forward_to = (!to.is_empty()).then(|| (*to).to_owned());
        }
        topic
    }

    fn circle(queues: &[QueueConfig], topics: &[TopicConfig]) -> String {
        check_for_circles(queues, topics).unwrap_err().to_string()
    }

    #[test]
    fn a_cycle_is_reported_with_its_steps_whatever_leads_into_it() {
        let queues = [queue("way", "A"), queue("a", "b"), queue("b", "C"), queue("c", "a")];
        assert_eq!(
            circle(&queues, &[]),
            "queues[1].forward_to: messages would be forwarded in a circle: a -> b -> c -> a"
        );
    }

    #[test]
    fn subscriptions_that_forward_to_what_feeds_their_topic_are_a_circle() {
        let news = topic("news", &[("all", ""), ("back", "jobs")]);
        assert_eq!(
            circle(&[queue("jobs", "news")], &[news]),
            "queues[0].forward_to: messages would be forwarded in a circle: jobs -> news/Subscriptions/back -> jobs"
        );
        assert_eq!(
            circle(&[], &[topic("news", &[("all", ""), ("self", "news")])]),
            "topics[0].subscriptions[1].forward_to: messages would be forwarded in a circle: news/Subscriptions/self -> news"
        );
    }

    #[test]
    fn ways_that_meet_are_none() {
        let queues = [queue("a", "c"), queue("b", "c"), queue("c", "")];
        let both = topic("news", &[("x", "a"), ("y", "a"), ("z", "c")]);
        check_for_circles(&queues, &[both]).unwrap();
    }

    #[test]
    fn ten_thousand_steps_are_gone_through_without_going_deep() {
        let name = |number: usize| format!("queue{number}");
        let mut queues: Vec<_> = (0..10_000).map(|number| queue(&name(number), &name(number + 1))).collect();
        queues.push(queue(&name(10_000), ""));
        check_for_circles(&queues, &[]).unwrap();
    }
}
