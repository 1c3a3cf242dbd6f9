//! The choice between the methods of measuring.

use super::*;
use crate::fake::Fake;

#[test]
fn what_is_asked_for_is_chosen() {
    let (with, without) = (Fake::new(), Fake::new());
    let used_by = |kdamonds: &str| {
        with.write("sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds", kdamonds);
    };
    used_by("0\n");
    for (order, source, unavailable) in [
        (Order::Address, HeatSource::Address, Some(HeatSource::Address)),
        (Order::Referenced, HeatSource::Referenced, Some(HeatSource::Referenced)),
        (Order::Probed, HeatSource::Damon, Some(HeatSource::Address)),
        (Order::Damon, HeatSource::Damon, None),
    ] {
        assert_eq!(choose(&with.roots(), order).ok(), Some(source));
        let chosen = choose(&without.roots(), order);
        match unavailable {
            None => assert!(matches!(chosen, Err(Error::NoDamon { .. })), "{chosen:?}"),
            source => assert_eq!(chosen.ok(), source),
        }
    }
    used_by("1\n");
    assert_eq!(choose(&with.roots(), Order::Probed).ok(), Some(HeatSource::Address));
    assert!(matches!(choose(&with.roots(), Order::Damon), Err(Error::NoDamon { .. })));
}
