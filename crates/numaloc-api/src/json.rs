//! Differences of protobuf's JSON mapping (protobuf.dev/programming-guides/json) from serde: enumerations by name,
//! times as text, numbers that JSON does not have as text. The build has the messages derive the rest
//! (`build/json.rs`). Numbers of 64 bits are numbers, fields at their defaults are written, and what is unset is left
//! out.

use crate::v1;
use serde::{Serialize, Serializer};
use std::{fmt::Display, marker::PhantomData};

/// A form that values of fields are written in.
pub(crate) trait Form {
    type Value;

    fn write<S: Serializer>(value: &Self::Value, to: S) -> Result<S::Ok, S::Error>;
}

/// An enumeration by name; a value that the definitions do not have, by number.
pub(crate) struct Enumeration<E>(PhantomData<E>);

/// Values as `Display` writes them: RFC 3339 for timestamps, seconds with the suffix `s` for durations.
pub(crate) struct Text<T>(PhantomData<T>);

/// A number of floating point.
pub(crate) struct Double;

pub(crate) trait Named: TryFrom<i32> {
    fn name(self) -> &'static str;
}

macro_rules! enumeration {
    ($kind:ident) => {
        impl Named for v1::$kind {
            fn name(self) -> &'static str {
                self.as_str_name()
            }
        }
    };
}
include!(concat!(env!("OUT_DIR"), "/enumerations.rs"));

impl<E: Named> Form for Enumeration<E> {
    type Value = i32;

    fn write<S: Serializer>(&value: &i32, to: S) -> Result<S::Ok, S::Error> {
        match E::try_from(value) {
            Ok(known) => to.serialize_str(known.name()),
            Err(_) => to.serialize_i32(value),
        }
    }
}

impl<T: Display> Form for Text<T> {
    type Value = T;

    fn write<S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(value)
    }
}

impl Form for Double {
    type Value = f64;

    fn write<S: Serializer>(&value: &f64, to: S) -> Result<S::Ok, S::Error> {
        match value {
            value if value.is_finite() => to.serialize_f64(value),
            value if value.is_nan() => to.serialize_str("NaN"),
            value => to.serialize_str(if value > 0.0 { "Infinity" } else { "-Infinity" }),
        }
    }
}

struct Written<'a, F: Form>(&'a F::Value);

impl<F: Form> Serialize for Written<'_, F> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        F::write(self.0, to)
    }
}

pub(crate) fn single<F: Form, S: Serializer>(value: &F::Value, to: S) -> Result<S::Ok, S::Error> {
    F::write(value, to)
}

pub(crate) fn optional<F: Form, S: Serializer>(
    value: &Option<F::Value>,
    to: S,
) -> Result<S::Ok, S::Error> {
    value.as_ref().map(Written::<F>).serialize(to)
}

pub(crate) fn list<F: Form, S: Serializer>(values: &[F::Value], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(values.iter().map(Written::<F>))
}

#[cfg(test)]
mod tests {
    use crate::{described::dynamic, samples, v1};
    use prost::{Message, Name};
    use prost_reflect::SerializeOptions;
    use serde::Serialize;
    use serde_json::{Value, json};

    /// The JSON of a library that reads the definitions.
    fn by_definition<M: Message + Name>(message: &M) -> Value {
        let options = SerializeOptions::new()
            .stringify_64_bit_integers(false)
            .use_proto_field_name(true)
            .skip_default_fields(false);
        let written = dynamic(message);
        written.serialize_with_options(serde_json::value::Serializer, &options).expect("JSON")
    }

    #[track_caller]
    fn is_by_definition<M: Message + Name + Serialize>(message: &M) {
        assert_eq!(serde_json::to_value(message).expect("JSON"), by_definition(message));
    }

    #[test]
    fn records_are_written_by_their_definitions() {
        is_by_definition(&v1::Job::from(&samples::job()));
        is_by_definition(&v1::Schedule::from(&samples::schedule()));
        is_by_definition(&v1::Workload::from(&samples::workload()));
        is_by_definition(&v1::Event::from(&samples::event()));
        is_by_definition(&v1::Outcome::default());
        is_by_definition(&v1::GetLocalityResponse::default());
    }

    #[test]
    fn each_form_is_written_by_its_definition() {
        let nodes = v1::NodesPlacement { node_ids: vec![0, 2] };
        is_by_definition(&v1::Policy {
            placement: Some(v1::policy::Placement::Nodes(nodes)),
            ..v1::Policy::default()
        });
        let percent = |local_percent| v1::Share { local_percent, ..v1::Share::default() };
        for number in [0.0, -0.5, 1e300, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            is_by_definition(&percent(number));
        }
        for (seconds, nanos) in [(0, 0), (-1, -500_000_000), (3600, 1), (0, 250_000_000)] {
            let elapsed = Some(prost_types::Duration { seconds, nanos });
            is_by_definition(&v1::Outcome { elapsed, ..v1::Outcome::default() });
            let time = Some(prost_types::Timestamp { seconds, nanos: nanos.abs() });
            is_by_definition(&v1::Event { create_time: time, ..v1::Event::default() });
        }
        for reason in [0, 1, 99, -1] {
            is_by_definition(&v1::LeftBytes { reason, bytes: i64::MAX });
        }
    }

    #[test]
    fn numbers_are_numbers_and_a_new_reason_is_one() {
        let left = v1::LeftBytes { reason: 99, bytes: 1 << 60 };
        let shown = serde_json::to_value(left).expect("JSON");
        assert_eq!(shown, json!({"reason": 99, "bytes": 1_u64 << 60}));
    }
}
