//! What holds of every decision, tried on random annotations.

use super::*;
use proptest::prelude::*;

/// JSON that is not far from a policy: the words are right, and everything else may be anything.
fn nearly() -> impl Strategy<Value = String> {
    let words = r#"("(policy|spec|limits|nodes|node_ids|profile|fast|none|redis|interval|10m|migrateIntervalMinutes|qos_class)"|[0-9]{1,20}|-1|1e9|0\.5|null|true)"#;
    let text = format!(r#"(\{{|\}}|\[|\]|:|,|{words}){{0,24}}"#);
    proptest::string::string_regex(&text).expect("a pattern")
}

proptest! {
    /// No input panics, and messages fit on a line and are short.
    #[test]
    fn any_pod_is_decided(
        texts in proptest::collection::vec(prop_oneof![any::<String>(), nearly()], 4),
        present in 0..16_usize,
        name in any::<String>(),
        (namespace, pod_name, stray) in (any::<String>(), any::<String>(), any::<String>()),
    ) {
        let container = format!("{CONTAINER_KEY}{name}");
        let keys = [container.as_str(), POLICIES_KEY, POLICY_KEY, KOORDINATOR_KEY];
        let given = keys.into_iter().zip(&texts).enumerate();
        let given = given.filter(|(index, _)| present >> index & 1 == 1);
        let mut annotations: std::collections::BTreeMap<String, String> =
            given.map(|(_, (key, text))| (key.to_owned(), text.clone())).collect();
        annotations.insert(format!("numaloc.io/{stray}"), String::new());
        let pod = Pod { namespace, name: pod_name, annotations, ..Pod::default() };
        let container = Container { name, ..Container::default() };
        let said = match decide(&pod, &container, &Defaults::default()) {
            Ok(decision) => decision.notes.into_iter().chain([decision.source.to_string()]).collect(),
            Err(bad) => vec![bad.to_string()],
        };
        for said in said {
            prop_assert!(!said.contains(char::is_control), "{said:?}");
            prop_assert!(said.len() < 16 << 10, "{said:?}");
        }
    }

    /// The settings of pods are within the ceilings, and the daemon accepts them.
    #[test]
    fn what_is_decided_is_within_the_ceilings(
        (shared, profile, stall) in (any::<bool>(), 0..3_usize, 100..60_000_000_u64),
        (rate, workers) in (4096..u64::MAX / 4, 1..=256_u64),
        (interval, to) in (prop_oneof![Just(0), 1..1_000_000_u64], any::<bool>()),
        ceiling in 0..3_usize,
    ) {
        let to = if to { r#"{"node_ids":[1]}"# } else { "null" };
        let value = format!(
            r#"{{"spec":{{"policy":{{"include_shared":{shared},"profile":"{}","max_stall":"{stall}us","nodes":{to}}},
            "limits":{{"rate_bytes_per_second":{rate},"workers":{workers}}}}},"interval":"{interval}s"}}"#,
            Profile::ALL[profile].name()
        );
        let ceilings = Ceilings {
            profile: Profile::ALL[ceiling],
            rate_bytes_per_second: Some(1 << 30),
            ..Ceilings::default()
        };
        let defaults = Defaults { ceilings: ceilings.clone(), ..Defaults::default() };
        let decision = decide(&pod(&[(POLICY_KEY, &value)]), &redis(), &defaults).expect(&value);
        prop_assert_eq!(decision.settings.is_none(), to != "null");
        if let Some(settings) = decision.settings {
            let MigrationSpec { policy: Policy { options, .. }, limits, .. } = settings.asked();
            prop_assert!(!options.include_shared);
            prop_assert!(options.pacing.profile <= ceilings.profile);
            prop_assert!(limits.rate_bytes_per_second <= ceilings.rate_bytes_per_second);
            prop_assert!(limits.workers <= Some(ceilings.workers));
            prop_assert!(!settings.repeats() || settings.interval() >= ceilings.min_interval);
            let mut schedule = settings.schedule();
            let target = v1::Target { containers: vec!["c".to_owned()], ..v1::Target::default() };
            schedule.spec.get_or_insert_default().target = Some(target);
            let taken = ScheduleSpec::try_from(schedule).expect("the daemon takes it");
            prop_assert_eq!(v1::Schedule::from(&taken).try_into(), Ok(taken));
        }
    }
}
