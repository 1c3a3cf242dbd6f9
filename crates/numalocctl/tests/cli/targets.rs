//! Each field of a target, by its definition, in all outputs that print targets.

use crate::{
    answers::{job, schedule},
    fake::{Fake, Script},
    run::text,
    web::Web,
};
use numaloc_api::{
    descriptor,
    v1::{self, JobState},
};
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, Value};

/// A unique value of a field, and a part of its printed form. A kind of field that is new fails here: decide how it is
/// printed.
fn sample(field: &FieldDescriptor) -> (Value, String) {
    let name = format!("a-{}", field.name().replace('_', "-"));
    let number = 7000 + field.number();
    let one = |value| if field.is_list() { Value::List(vec![value]) } else { value };
    match field.kind() {
        Kind::String => (one(Value::String(name.clone())), name),
        Kind::Int32 => (one(Value::I32(number as i32)), number.to_string()),
        Kind::Message(message) if message.name() == "TargetProcess" => {
            let mut process = DynamicMessage::new(message);
            process.set_field_by_name("pid", Value::I32(number as i32));
            (one(Value::Message(process)), number.to_string())
        }
        Kind::Message(message) if message.name() == "LabelSelector" => {
            let labels = [(MapKey::String("app".to_owned()), Value::String(name.clone()))];
            let mut selector = DynamicMessage::new(message);
            selector.set_field_by_name("match_labels", Value::Map(labels.into()));
            (one(Value::Message(selector)), name)
        }
        kind => panic!("{}: a {kind:?} is new", field.name()),
    }
}

/// A target for each field, which has this field alone, with the field's name and what has to be printed.
fn targets() -> Vec<(String, v1::Target, String)> {
    let fields = descriptor::<v1::Target>().expect("it is defined").fields().collect::<Vec<_>>();
    let target = |field: &FieldDescriptor| {
        let (value, printed) = sample(field);
        let mut target = DynamicMessage::new(field.parent_message().clone());
        target.set_field(field, value);
        (field.name().to_owned(), target.transcode_to().expect("a target"), printed)
    };
    fields.iter().map(target).collect()
}

fn of(target: &v1::Target) -> Option<v1::MigrationSpec> {
    Some(v1::MigrationSpec { target: Some(target.clone()), ..v1::MigrationSpec::default() })
}

#[test]
fn each_field_of_a_target_is_printed() {
    let targets = targets();
    assert!(targets.len() >= 11, "{targets:?}");
    for (field, target, printed) in &targets {
        let jobs = vec![v1::Job { spec: of(target), ..job(JobState::Running, 0) }];
        let schedules = vec![v1::Schedule { spec: of(target), ..schedule() }];
        let fake = Fake::start(Script { jobs, schedules, ..Script::default() });
        for line in [
            "jobs ls",
            "jobs ls -o wide",
            "jobs ls -o csv",
            "jobs ls -o json",
            "jobs get 42",
            "schedules ls",
            "schedules get 7",
        ] {
            let shown = text(&fake.run(line), 0);
            assert!(shown.contains(printed), "{field} is not in `{line}`: {shown}");
        }
    }
}

#[test]
fn the_page_has_each_field_of_a_target() {
    let targets = targets();
    let jobs = targets.iter().map(|(field, target, _)| v1::Job {
        name: format!("jobs/{field}"),
        spec: of(target),
        ..job(JobState::Running, 0)
    });
    let fake = Fake::start(Script {
        jobs: jobs.collect(),
        live: Some(v1::LiveView::default()),
        ..Script::default()
    });
    let web = Web::by(&fake);
    let view = web.shows("jobs", |view| view["jobs"].is_array());
    for (field, _, printed) in &targets {
        let shown = view["targets"][format!("jobs/{field}")].as_str().unwrap_or_default();
        assert!(shown.contains(printed), "{field}: {view}");
    }
    web.end();
}
