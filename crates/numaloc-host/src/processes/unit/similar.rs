//! What runs under names like that of a unit which does not.

use super::{property_in, run};
use crate::Error;
use std::{collections::BTreeMap, time::Duration};

/// Most units that an error names.
const SIMILAR: usize = 5;

/// The cgroups of running units whose names begin with one of these, by their names.
pub(super) fn running<'a>(
    systemctl: &str,
    stems: impl Iterator<Item = &'a str>,
    patience: Duration,
) -> BTreeMap<String, String> {
    let patterns: Vec<String> = stems.map(|stem| format!("{stem}*.service")).collect();
    if patterns.is_empty() {
        return BTreeMap::new();
    }
    let options = ["show", "--no-pager", "--property=Id,ControlGroup", "--"];
    let words = options.into_iter().chain(patterns.iter().map(String::as_str));
    let told = run(systemctl, words, patience).unwrap_or_default();
    let unit = |text: &str| {
        let (id, path) = (property_in(text, "Id"), property_in(text, "ControlGroup"));
        (!id.is_empty() && !path.is_empty()).then(|| (id.to_owned(), path.to_owned()))
    };
    told.split("\n\n").filter_map(unit).collect()
}

/// What a unit that does not run stands for: its only running instance, as Debian's postgresql.service does for
/// postgresql@17-main.service. Else the error names running units with similar names.
pub(super) fn instead(error: Error, running: &BTreeMap<String, String>) -> Result<String, Error> {
    let Error::NoUnit { unit, reason } = error else { return Err(error) };
    let stem = unit.strip_suffix(".service").unwrap_or(&unit);
    let is_instance =
        |name: &str| name.strip_prefix(stem).is_some_and(|rest| rest.starts_with('@'));
    let mut instances = running.iter().filter(|(name, _)| is_instance(name));
    if let (Some((_, path)), None) = (instances.next(), instances.next()) {
        return Ok(path.clone());
    }
    let similar = running.keys().filter(|name| name.starts_with(stem)).take(SIMILAR);
    let similar = similar.map(String::as_str).collect::<Vec<_>>().join(", ");
    let reason = match &similar[..] {
        "" => reason,
        names => format!("{reason}; what runs is {names}"),
    };
    Err(Error::NoUnit { unit, reason })
}

#[cfg(test)]
mod tests {
    use super::super::{PATIENCE, look_up, tests::script};

    /// Debian's postgresql.service has no processes; its clusters are instances of postgresql@.service.
    #[test]
    fn a_unit_stands_for_its_only_instance_and_others_are_named() {
        let directory = tempfile::tempdir().expect("a directory");
        let lines = r#"case "$*" in
            *" --property=Id,ControlGroup "*)
                printf 'Id=%s\nControlGroup=/system.slice/%s\n\n' postgresql@17-main.service 17 redis-server.service r valkey@1.service 1 valkey@2.service 2
                printf 'Id=postgresql.service\nControlGroup=\n' ;;
            *) shift 4; for u; do [ -z "$n" ] || echo; n=1; printf 'LoadState=loaded\nActiveState=active\nControlGroup=\n'; done ;;
        esac"#;
        let systemctl = script(directory.path(), lines);
        let told = look_up(&systemctl, &["postgresql", "redis", "valkey", "nginx"], PATIENCE, true);
        let told: Vec<String> =
            told.into_iter().map(|told| told.unwrap_or_else(|error| error.to_string())).collect();
        assert_eq!(told[0], "/system.slice/17");
        assert!(told[1].contains("; what runs is redis-server.service"), "{}", told[1]);
        let both = "; what runs is valkey@1.service, valkey@2.service";
        assert!(told[2].contains(both), "{}", told[2]);
        assert!(!told[3].contains("what runs"), "{}", told[3]);
    }
}
