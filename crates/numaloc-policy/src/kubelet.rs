//! Rules of the kubelet that give a pod and its containers their place: cgroups, and shares of CPUs.

use crate::Resources;

const SHARES_PER_CPU: u64 = 1024;
const SHARES_MIN: u64 = 2;

/// The cgroup of a pod as the kubelet names it with cgroupfs: it shows the pod's class (`status.qosClass`).
pub fn cgroup_parent(class: &str, uid: &str) -> String {
    match class {
        "Guaranteed" => format!("/kubepods/pod{uid}"),
        "Burstable" => format!("/kubepods/burstable/pod{uid}"),
        "BestEffort" => format!("/kubepods/besteffort/pod{uid}"),
        _ => String::new(),
    }
}

/// The kubelet's conversion of CPU requests (kubernetes/pkg/kubelet/cm, `MilliCPUToShares`).
pub fn cpu_resources(milli: Option<u64>) -> Resources {
    let shares = milli.map(|milli| (milli * SHARES_PER_CPU / 1000).max(SHARES_MIN));
    Resources { cpu_shares: shares, ..Resources::default() }
}

/// Thousandths of a CPU, rounded up; `None`: it is not a quantity of the API, or more than any machine has.
pub fn milli_cpu(quantity: &str) -> Option<u64> {
    let digits = quantity.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let nano: u128 = match &quantity[digits.len()..] {
        "n" => 1,
        "u" => 1_000,
        "m" => 1_000_000,
        "" => 1_000_000_000,
        "k" => 1_000_000_000_000,
        _ => return None,
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.len() > 9 || fraction.len() > 9 || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let number = |text: &str| match text {
        "" => Some(0),
        text if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse::<u128>().ok(),
        _ => None,
    };
    let scale = 10u128.pow(u32::try_from(fraction.len()).ok()?);
    let nanos = number(whole)? * nano + number(fraction)? * nano / scale;
    u64::try_from(nanos.div_ceil(1_000_000)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantities_are_those_of_the_api() {
        for (text, expected) in [
            ("2", Some(2000)),
            ("1.5", Some(1500)),
            ("500m", Some(500)),
            ("1k", Some(1_000_000)),
            ("100u", Some(1)),
            (".5", Some(500)),
            ("", None),
            ("-1", None),
            ("1Gi", None),
            ("1e3", None),
        ] {
            assert_eq!(milli_cpu(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_quantity_is_read_or_not(text in r"[0-9.a-z\PC]{0,24}") {
            let _ = milli_cpu(&text);
        }
    }
}
