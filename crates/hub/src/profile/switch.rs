//! The profile of a service while it runs: the one that it began with, until another takes its place.
//!
//! A connection keeps the profile that it began with, so that what it does has one order and one generator. So a profile that takes the
//! place of another ends the connections made before; clients connect again, as they do when the real service moves them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

use super::config::{ProfileConfig, ProfileError};
use super::counters::{ProfileCounterValues, ProfileCounters};
use super::named::TlsVersion;
use super::shaper::ServiceProfile;

/// The present profile of a service, shared by its fronts.
#[derive(Debug)]
pub struct ProfileSwitch {
    present: watch::Sender<Present>,
    /// Of all profiles so far.
    counters: Arc<ProfileCounters>,
    /// Whether there has been any.
    was_used: AtomicBool,
    /// The newest version of TLS, which listeners were made with.
    tls: Option<TlsVersion>,
}

#[derive(Clone, Debug)]
struct Present {
    /// As it was written.
    config: ProfileConfig,
    profile: Option<Arc<ServiceProfile>>,
}

impl ProfileSwitch {
    /// For a service that begins with the profile that `config` describes.
    ///
    /// # Errors
    /// The configuration contradicts itself.
    pub fn new(config: &ProfileConfig) -> Result<Arc<Self>, ProfileError> {
        let counters = Arc::<ProfileCounters>::default();
        let profile = ServiceProfile::counted_in(config, &counters)?;
        Ok(Arc::new(Self {
            was_used: AtomicBool::new(profile.is_some()),
            present: watch::Sender::new(Present { config: config.clone(), profile }),
            counters,
            tls: config.resolved().tls,
        }))
    }

    /// The profile of what begins now; `None` while it is off.
    #[must_use]
    pub fn present(&self) -> Option<Arc<ServiceProfile>> {
        self.present.borrow().profile.clone()
    }

    /// The present profile as it was written.
    #[must_use]
    pub fn config(&self) -> ProfileConfig {
        self.present.borrow().config.clone()
    }

    /// Puts the profile that `config` describes in place of the present one. Quotas and randomness begin anew; connections that are
    /// open end. The version of TLS stays what it is, also where a name stands for another.
    ///
    /// # Errors
    /// The configuration contradicts itself, or asks for another version of TLS. The present profile stays.
    pub fn replace(&self, config: &ProfileConfig) -> Result<(), ProfileError> {
        if config.tls.is_some() && config.tls != self.tls {
            return Err(ProfileError {
                path: "profile.tls",
                reason: "a service keeps the version of TLS that it began with",
                advice: "leave it out, or start the service with it",
            });
        }
        let profile = ServiceProfile::counted_in(config, &self.counters)?;
        self.was_used.fetch_or(profile.is_some(), Ordering::Relaxed);
        self.present.send_replace(Present { config: config.clone(), profile });
        Ok(())
    }

    /// What all profiles so far did; `None` if there was none.
    #[must_use]
    pub fn counters(&self) -> Option<ProfileCounterValues> {
        self.was_used.load(Ordering::Relaxed).then(|| self.counters.values())
    }

    /// Tells when another profile takes the place of the present one.
    pub(crate) fn replacements(&self) -> Replacements {
        Replacements(Some(self.present.subscribe()))
    }
}

/// Profiles that take the place of others.
#[derive(Debug)]
pub(crate) struct Replacements(Option<watch::Receiver<Present>>);

impl Replacements {
    /// None, ever.
    pub(crate) const fn never() -> Self {
        Self(None)
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) {
        if let Some(present) = &mut self.0
            && present.changed().await.is_ok()
        {
            return;
        }
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> ProfileConfig {
        serde_json::from_str(text).expect("a profile")
    }

    #[test]
    fn what_a_profile_did_is_counted_after_it_was_switched_off() {
        let switch = ProfileSwitch::new(&ProfileConfig::default()).unwrap();
        assert!(switch.present().is_none() && switch.counters().is_none());
        switch.replace(&config(r#"{"failures": {"disconnect_ratio": 1}}"#)).unwrap();
        switch.present().expect("it is on").count_disconnect();
        switch.replace(&ProfileConfig::default()).unwrap();
        assert!(switch.present().is_none());
        assert_eq!(switch.counters().expect("there was one").disconnects, 1);
    }

    #[test]
    fn what_can_not_be_switched_to_leaves_the_present_profile() {
        let slow = config(r#"{"round_trip": "2 ms"}"#);
        let switch = ProfileSwitch::new(&slow).unwrap();
        for refused in [r#"{"throughput_units": 0}"#, r#"{"tls": "1.2"}"#] {
            switch.replace(&config(refused)).unwrap_err();
            assert_eq!(switch.config(), slow, "{refused}");
        }
        switch.replace(&config(r#"{"name": "cloud"}"#)).expect("a name may stand for another version");
    }

    #[tokio::test]
    async fn those_who_wait_hear_of_a_replacement() {
        let switch = ProfileSwitch::new(&ProfileConfig::default()).unwrap();
        let mut replacements = switch.replacements();
        switch.replace(&config(r#"{"round_trip": "2 ms"}"#)).unwrap();
        replacements.next().await;
        let again = tokio::time::timeout(std::time::Duration::ZERO, replacements.next()).await;
        assert!(again.is_err(), "each is told once");
    }
}
