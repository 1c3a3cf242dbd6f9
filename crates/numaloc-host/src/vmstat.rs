//! Counters of /proc/vmstat that tell how migrations go.

use crate::{Roots, read};

/// Counters of all page migrations on the host since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Migrations {
    /// Huge pages that were split because they could not be moved whole (thp_migration_split).
    pub split_huge_pages: u64,
    /// Base pages that could not be moved (pgmigrate_fail).
    pub failed_pages: u64,
}

/// The counters now; those that the kernel does not have are 0. `None` when they cannot be read.
pub fn migrations(roots: &Roots) -> Option<Migrations> {
    Some(parse(&read::text(&roots.proc.join("vmstat")).ok()?))
}

fn parse(text: &str) -> Migrations {
    let mut migrations = Migrations::default();
    for line in text.lines() {
        let (name, value) = line.split_once(' ').unwrap_or_default();
        let counter = match name {
            "thp_migration_split" => &mut migrations.split_huge_pages,
            "pgmigrate_fail" => &mut migrations.failed_pages,
            _ => continue,
        };
        *counter = value.parse().unwrap_or(0);
    }
    migrations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    #[test]
    fn counters_are_found_by_name() {
        let fake = Fake::new();
        assert_eq!(migrations(&fake.roots()), None);
        fake.write(
            "proc/vmstat",
            "pgmigrate_success 1\npgmigrate_fail 2\nthp_migration_fail 3\nthp_migration_split 4\n",
        );
        let expected = Migrations { split_huge_pages: 4, failed_pages: 2 };
        assert_eq!(migrations(&fake.roots()), Some(expected));
        fake.write("proc/vmstat", "");
        assert_eq!(migrations(&fake.roots()), Some(Migrations::default()));
    }
}
