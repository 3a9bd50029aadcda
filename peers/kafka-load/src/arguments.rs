//! What a load is told: an address, a topic, numbers by name, and settings of librdkafka, whose names have dots.

use crate::librdkafka::Result;

/// What a load is told.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub address: String,
    pub topic: String,
    numbers: Vec<(String, u64)>,
    settings: Vec<(String, String)>,
}

impl Arguments {
    pub(crate) fn read(mut words: impl Iterator<Item = String>) -> Result<Self> {
        let mut next = |what: &str| words.next().ok_or_else(|| format!("the {what} is missing"));
        let mut read =
            Self { address: next("address")?, topic: next("topic")?, numbers: vec![], settings: vec![] };
        for word in words {
            let (name, value) = word.split_once('=').ok_or_else(|| format!("{word:?} has no value"))?;
            if name.contains('.') || name == "acks" {
                read.settings.push((name.to_owned(), value.to_owned()));
            } else {
                let value = value.parse().map_err(|error| format!("{word}: {error}"))?;
                read.numbers.push((name.to_owned(), value));
            }
        }
        Ok(read)
    }

    pub(crate) fn number(&self, name: &str) -> Result<u64> {
        let found = self.numbers.iter().rev().find(|(it, _)| it == name);
        found.map(|(_, value)| *value).ok_or_else(|| format!("{name}=… is missing"))
    }

    pub(crate) fn number_or(&self, name: &str, usual: u64) -> u64 {
        self.number(name).unwrap_or(usual)
    }

    /// Settings of a client: those that it needs, and those that were given, which count.
    pub(crate) fn settings(&self, usual: &[(&str, &str)]) -> Vec<(String, String)> {
        let needed = [("bootstrap.servers", self.address.as_str())];
        let all = needed.iter().chain(usual).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        all.chain(self.settings.iter().cloned()).collect()
    }
}
