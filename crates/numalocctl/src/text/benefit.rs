//! The benefit of a move, as text.

use numaloc_api::v1::{self, LatencySource};

/// `0 to 17 % less time on memory accesses (bench: 98 ns local, 143 ns remote; if all memory is used alike)`. `None` if
/// only a newer daemon knows where the latencies are from.
pub fn benefit(benefit: &v1::Benefit) -> Option<String> {
    let (source, unit) = match benefit.source() {
        LatencySource::Bench => ("bench", " ns"),
        LatencySource::Hmat => ("HMAT", " ns"),
        LatencySource::Distances => ("distances", ""),
        LatencySource::Unspecified => return None,
    };
    let (now, then) = (benefit.latency_before, benefit.latency_after);
    if benefit.max_percent <= 0.0 {
        return Some(format!(
            "none by latency ({source}: {now:.0}{unit} now, {then:.0}{unit} afterwards)"
        ));
    }
    // Up, because it is the most; the calculation is not exact to its last digit.
    let up = |percent: f64| (percent - 1e-6).ceil();
    let (min, max) = (benefit.min_percent.floor(), up(benefit.max_percent));
    Some(format!(
        "{min:.0} to {max:.0} % less time on memory accesses ({source}: {then:.0}{unit} local, {now:.0}{unit} remote; if all memory is used alike)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_range_with_its_source() {
        let text = |source: LatencySource, max_percent, before, after| {
            benefit(&v1::Benefit {
                min_percent: 0.0,
                max_percent,
                source: source.into(),
                latency_before: before,
                latency_after: after,
            })
        };
        assert_eq!(
            text(LatencySource::Bench, 16.99, 143.2, 98.4).as_deref(),
            Some(
                "0 to 17 % less time on memory accesses (bench: 98 ns local, 143 ns remote; if all memory is used alike)"
            )
        );
        assert_eq!(
            text(LatencySource::Distances, 100.0 * (1.0 - 0.5), 20.0, 10.0).as_deref(),
            Some(
                "0 to 50 % less time on memory accesses (distances: 10 local, 20 remote; if all memory is used alike)"
            )
        );
        assert_eq!(
            text(LatencySource::Hmat, 0.0, 110.0, 120.0).as_deref(),
            Some("none by latency (HMAT: 110 ns now, 120 ns afterwards)")
        );
        assert_eq!(text(LatencySource::Unspecified, 1.0, 2.0, 1.0), None);
    }
}
