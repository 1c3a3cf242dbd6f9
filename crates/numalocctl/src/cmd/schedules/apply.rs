//! `schedules apply`: a file's declarations of schedules, and the changes that they need.

use crate::{
    args::{ApplyArgs, parse_schedule},
    cmd::{
        apply::{Declared, Step, apply as apply_all},
        documents,
    },
    doc::AppliedDoc,
    exit::Failure,
    remote::Daemon,
};
use numaloc_api::{
    v1,
    value::{CreateSchedule, DeleteSchedule, ScheduleFilter, ScheduleId, ScheduleSpec},
    written::read_schedule,
};
use numaloc_config::written::{Problems, Tree};
use std::collections::BTreeMap;

struct Schedules;

/// Makes the daemon's schedules match a file.
pub fn apply(daemon: &Daemon, args: &ApplyArgs) -> Result<AppliedDoc, Failure> {
    let declared = documents::read(&args.file, "schedules", schedule)?;
    let existing = daemon.list_schedules(&ScheduleFilter::default())?.schedules;
    apply_all::<Schedules>(daemon, args, declared, &existing)
}

/// A schedule as a file declares it. Fields that only the daemon sets are left out, so that its own output is a valid
/// file.
fn schedule(record: &Tree) -> Result<(ScheduleId, ScheduleSpec), Problems> {
    read_schedule(record, parse_schedule)
}

impl Declared for Schedules {
    type Id = ScheduleId;
    type Spec = ScheduleSpec;
    type Record = v1::Schedule;

    fn id(record: &v1::Schedule) -> Option<ScheduleId> {
        ScheduleId::from_name(&record.name)
    }

    fn etag(record: &v1::Schedule) -> &str {
        &record.etag
    }

    fn labels(record: &v1::Schedule) -> &BTreeMap<String, String> {
        &record.labels
    }

    fn declared_in(record: &v1::Schedule) -> &str {
        &record.declared_in
    }

    fn changed(spec: ScheduleSpec, record: &v1::Schedule) -> Option<ScheduleSpec> {
        let is_same = ScheduleSpec::try_from(record.clone()).is_ok_and(|same| same == spec);
        (!is_same).then_some(spec)
    }

    fn carry_out(
        daemon: &Daemon,
        id: &ScheduleId,
        step: &Step<ScheduleSpec>,
        validate_only: bool,
    ) -> Result<(), Failure> {
        match step {
            Step::Create(spec) => {
                let (id, spec) = (Some(id.clone()), spec.clone());
                let request = CreateSchedule { id, spec, request_id: None, validate_only };
                daemon.create_schedule(&request).map(drop)
            }
            Step::Configure(spec, etag) => {
                daemon.replace_schedule(id, spec, etag, validate_only).map(drop)
            }
            Step::Keep => Ok(()),
            Step::Prune(etag) => {
                let (id, etag, allow_missing) = (id.clone(), Some(etag.clone()), true);
                daemon.delete_schedule(&DeleteSchedule { id, etag, allow_missing, validate_only })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::apply::steps as steps_of;

    fn steps(
        declared: Vec<(ScheduleId, ScheduleSpec)>,
        existing: &[v1::Schedule],
        pruned: Option<&BTreeMap<String, String>>,
    ) -> Result<BTreeMap<ScheduleId, Step<ScheduleSpec>>, String> {
        steps_of::<Schedules>(declared, existing, pruned)
    }
    use numaloc_api::samples;
    use serde_json::{Value, json};

    fn read(record: Value) -> Result<(ScheduleId, ScheduleSpec), String> {
        let read = schedule(&serde_json::from_value(record).expect("a tree"));
        read.map_err(|problems| problems.to_string())
    }

    fn declared(name: &str, interval: &str) -> (ScheduleId, ScheduleSpec) {
        read(json!({"name": name, "interval": interval, "spec": {"target": {"units": ["a.service"]}}}))
            .expect("a schedule")
    }

    fn existing(name: &str, interval: &str, labels: &[(&str, &str)], file: &str) -> v1::Schedule {
        let mut schedule = v1::Schedule::from(&declared(name, interval).1);
        let labels = labels.iter().map(|&(key, value)| (key.to_owned(), value.to_owned()));
        schedule.labels = labels.collect();
        let (name, etag) = (format!("schedules/{name}"), format!("of {name}"));
        v1::Schedule { name, etag, declared_in: file.to_owned(), ..schedule }
    }

    #[test]
    fn only_what_differs_is_changed_and_only_what_has_the_labels_is_pruned() {
        let team = &[("team", "db"), ("tier", "1")];
        let there = [
            existing("same", "5s", &[], ""),
            existing("other", "6s", &[], ""),
            existing("old", "5s", team, ""),
            existing("7", "5s", team, ""),
            existing("others", "5s", &[("team", "web")], ""),
            existing("of-file", "5s", team, "/etc/numaloc/conf.d/a.toml"),
        ];
        let declared =
            || vec![declared("same", "5s"), declared("other", "5s"), declared("new", "5s")];
        let labels = [("team".to_owned(), "db".to_owned())].into();
        let found = steps(declared(), &there, Some(&labels)).expect("steps");
        let of = |name: &str| found.get(&ScheduleId::new(name)?);
        let spec = declared().remove(0).1;
        assert_eq!(of("same"), Some(&Step::Keep));
        assert_eq!(of("other"), Some(&Step::Configure(spec.clone(), "of other".into())));
        assert_eq!(of("new"), Some(&Step::Create(spec)));
        assert_eq!(of("old"), Some(&Step::Prune("of old".into())));
        assert_eq!(of("7"), Some(&Step::Prune("of 7".into())));
        assert_eq!((of("others"), of("of-file")), (None, None));
        assert_eq!(steps(declared(), &there, None).expect("steps").len(), 3);
    }

    #[test]
    fn what_would_not_be_clear_is_refused() {
        let there = [existing("a", "5s", &[], "/etc/numaloc/conf.d/a.toml")];
        let refused = |all: Vec<_>| steps(all, &there, None).expect_err("refused");
        let message = refused(vec![declared("a", "5s")]);
        assert!(message.starts_with("schedules/a is declared in /etc/numaloc/conf.d/a.toml"));
        let twice = vec![declared("b", "5s"), declared("schedules/b", "6s")];
        assert_eq!(refused(twice), "schedules/b is declared twice: leave one out");
        for (record, words) in [
            (json!({"name": "a b"}), "'a b' is not a valid schedule"),
            (json!({"name": "a", "intervals": "5s"}), "intervals is not known; known here: name, "),
            (
                json!({"name": "a", "interval": "5x"}),
                "interval is \"5x\"; expected a duration such as",
            ),
            (json!({"name": "a", "interval": "5s"}), "spec is required"),
            (
                json!({"name": "a b", "interval": "5x", "labels": {"a": 1}, "spec": {"target": {"units": ["a.service", 5]}}}),
                "interval is \"5x\"; expected a duration such as 500ms, 10s, 5m, 12h or 30d; also labels.a must be text, and is a number; \
                 also spec.target.units[1] must be text, and is a number; also name 'a b' is not a valid schedule",
            ),
            (json!(5), "it must be an object, and is a number"),
        ] {
            let error = read(record).expect_err(words);
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn what_the_daemon_prints_is_a_file() {
        let stored = v1::Schedule::from(&samples::schedule());
        let printed = serde_json::to_value(&stored).expect("JSON");
        let (id, spec) = read(printed).expect("a schedule");
        assert_eq!((id.to_string(), spec), (stored.name, samples::schedule().spec));
    }
}
