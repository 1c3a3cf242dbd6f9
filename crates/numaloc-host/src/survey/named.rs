//! The mappings that the rules of a request name.

use crate::{Error, files::maps::Vma};
use numaloc_core::{MapRule, Rule};
use std::collections::BTreeSet;

/// Notes for each VMA the first rule that matches it. `vmas` has one list for each process, by the process's index. The result has,
/// for each rule, the processes with VMAs that it names.
///
/// # Errors
/// [`Error::NoMapping`]: a rule matches no VMA of any process, also none that an earlier one names. Processes that have all ended
/// have none.
pub(super) fn name(
    rules: &[MapRule],
    vmas: &mut [Vec<Vma>],
) -> Result<Vec<BTreeSet<usize>>, Error> {
    let mut users = vec![BTreeSet::new(); rules.len()];
    if rules.is_empty() {
        return Ok(users);
    }
    let mut matches = vec![false; rules.len()];
    for (process, vmas) in vmas.iter_mut().enumerate() {
        for vma in vmas {
            let bytes = vma.end - vma.start;
            for (number, rule) in rules.iter().enumerate() {
                if !rule.pattern.matches(&vma.name, vma.kind, bytes) {
                    continue;
                }
                matches[number] = true;
                if vma.rule.is_none() {
                    vma.rule = Some(Rule::Request(number));
                    users[number].insert(process);
                }
            }
        }
    }
    let has_any = vmas.iter().any(|vmas| !vmas.is_empty());
    match matches.iter().position(|matches| !matches).filter(|_| has_any) {
        Some(number) => Err(Error::NoMapping { pattern: rules[number].pattern.to_string() }),
        None => Ok(users),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::maps::parse_line;

    fn vmas(lines: &[&str]) -> Vec<Vma> {
        lines.iter().map(|line| parse_line(line).expect("a VMA")).collect()
    }

    fn rules(rules: &[&str]) -> Vec<MapRule> {
        rules.iter().map(|rule| rule.parse().expect("valid")).collect()
    }

    const HEAP: &str = "1000-9000 rw-p 0 00:00 0 [heap]";
    const LARGE: &str = "100000-900000 rw-p 0 00:00 0";
    const SEGMENT: &str = "a00000-b00000 rw-s 0 00:01 7 /SYSV0000002a (deleted)";
    const MODEL: &str = "c00000-d00000 r--p 0 fe:01 9 /data/model.gguf";

    #[test]
    fn the_first_rule_that_matches_names_a_mapping() {
        let mut all = [vmas(&[HEAP, LARGE, SEGMENT]), vmas(&[LARGE, MODEL])];
        let rules =
            rules(&["anon>1M=interleave", "anon=home", "sysv:42=home", "*.gguf=interleave"]);
        let users = name(&rules, &mut all).expect("each matches one");
        let named = all.each_ref().map(|vmas| vmas.iter().map(|vma| vma.rule).collect::<Vec<_>>());
        let [first, third, last] = [0, 2, 3].map(|number| Some(Rule::Request(number)));
        assert_eq!(named, [vec![None, first, third], vec![first, last]]);
        let sets = [vec![0, 1], vec![], vec![0], vec![1]];
        assert_eq!(users, sets.map(BTreeSet::from_iter));
    }

    #[test]
    fn a_rule_that_matches_nothing_is_named() {
        let refused = |list: &[&str], vmas: Vec<Vma>| {
            name(&rules(list), &mut [vmas]).err().map(|error| error.to_string())
        };
        let why = refused(&["heap=home", "memfd:*=home"], vmas(&[HEAP, LARGE])).expect("no memfd");
        assert!(why.contains("'memfd:*'") && why.contains("/proc/PID/maps"), "{why}");
        assert!(!why.contains('\n'), "{why}");
        assert_eq!(refused(&["heap=home"], vmas(&[HEAP])), None);
        assert_eq!(refused(&["heap=home"], Vec::new()), None, "it has ended");
        assert_eq!(refused(&[], vmas(&[HEAP])), None);
    }
}
