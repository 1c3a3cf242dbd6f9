//! The names of devices, queues, groups and engines: `dsa0`, `wq0.1`, `group0.0`, `engine0.3`. The first number is that of the
//! device (drivers/dma/idxd/init.c, `idxd_setup_wqs` and its neighbours).

/// The number in a name such as `dsa0`.
pub fn device(name: &str) -> Option<u32> {
    number(name.strip_prefix("dsa")?)
}

/// The numbers in a name such as `wq0.1`: of the device, and of the part within it.
pub fn part(prefix: &str, name: &str) -> Option<(u32, u32)> {
    let (device, part) = name.strip_prefix(prefix)?.split_once('.')?;
    Some((number(device)?, number(part)?))
}

/// Decimal digits only: `parse` would take a sign, too.
fn number(digits: &str) -> Option<u32> {
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinguished() {
        assert_eq!(device("dsa12"), Some(12));
        assert_eq!(part("wq", "wq12.3"), Some((12, 3)));
        assert_eq!(part("engine", "engine0.0"), Some((0, 0)));
        for other in ["dsa", "iax1", "dsa-1", "dsa+1", "dsa1.0", "dsax", "dsa99999999999"] {
            assert_eq!(device(other), None, "{other}");
        }
        for other in ["wq0", "wq0.", "wq.0", "wq0.1.2", "engine0.1", "wq0.+1", "wq../x"] {
            assert_eq!(part("wq", other), None, "{other}");
        }
    }
}
