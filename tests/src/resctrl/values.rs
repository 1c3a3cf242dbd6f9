//! The values of a group, and which the kernel takes (fs/resctrl/ctrlmondata.c).

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

/// The values of a group, by resource and domain.
#[derive(Clone, Debug)]
pub(super) struct Schemata(BTreeMap<&'static str, BTreeMap<u32, u64>>);

/// What values a resource takes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bounds {
    Mask {
        all: u64,
        min_bits: u32,
        is_sparse: bool,
    },
    Bandwidth {
        min: u64,
        largest: u64,
        granularity: u64,
        /// Whether the kernel controls it in software, and takes any value (mount option mba_MBps).
        is_software: bool,
    },
}

impl Bounds {
    pub(super) fn largest(&self) -> u64 {
        match *self {
            Self::Mask { all, .. } => all,
            Self::Bandwidth { largest, .. } => largest,
        }
    }

    /// The value that the kernel makes of a text. The error is what last_cmd_status says.
    fn take(&self, text: &str) -> Result<u64, String> {
        match *self {
            Self::Mask { all, min_bits, is_sparse } => {
                let mask = u64::from_str_radix(text, 16)
                    .map_err(|_| format!("Non-hex character in the mask {text}\n"))?;
                if (min_bits > 0 && mask == 0) || mask > all {
                    return Err("Mask out of range\n".to_owned());
                }
                let run = (mask >> mask.trailing_zeros().min(63)).trailing_ones();
                if !is_sparse && run != mask.count_ones() {
                    return Err(format!("The mask {mask:x} has non-consecutive 1-bits\n"));
                }
                if run < min_bits {
                    return Err(format!("Need at least {min_bits} bits in the mask\n"));
                }
                Ok(mask)
            }
            Self::Bandwidth { min, largest, granularity, is_software } => {
                let value: u32 = text.parse().map_err(|_| format!("Invalid MB value {text}\n"))?;
                let value = u64::from(value);
                if is_software {
                    return Ok(value);
                }
                if !(min..=largest).contains(&value) {
                    return Err(format!("MB value {value} out of range [{min},{largest}]\n"));
                }
                Ok(value.next_multiple_of(granularity))
            }
        }
    }
}

impl Schemata {
    pub(super) fn new(values: BTreeMap<&'static str, BTreeMap<u32, u64>>) -> Self {
        Self(values)
    }

    /// As `rdtgroup_schemata_show` writes it: names as wide as the longest one.
    pub(super) fn text(&self) -> String {
        let width = self.0.keys().map(|name| name.len()).max().unwrap_or(0) + 4;
        let mut text = String::new();
        for (name, values) in &self.0 {
            let format = |value: u64| match *name {
                "MB" => value.to_string(),
                _ => format!("{value:x}"),
            };
            let values: Vec<String> = values
                .iter()
                .map(|(domain, &value)| format!("{domain}={}", format(value)))
                .collect();
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name:>width$}:{}", values.join(";"));
        }
        text
    }

    /// Takes lines, all or none. The error is what last_cmd_status says, which is nothing for a domain that does not exist.
    pub(super) fn write(
        &mut self,
        text: &str,
        bounds: impl Fn(&str) -> Option<Bounds>,
    ) -> Result<(), String> {
        // "Valid input requires a trailing newline"
        let lines = text.strip_suffix('\n').ok_or_else(String::new)?;
        let mut new = self.0.clone();
        let mut staged = BTreeSet::new();
        for line in lines.split('\n') {
            let (name, values) = line.split_once(':').ok_or_else(|| "Missing ':'\n".to_owned())?;
            let name = name.trim();
            if values.is_empty() {
                return Err(format!("Missing '{name}' value\n"));
            }
            let unknown = || format!("Unknown or unsupported resource name '{name}'\n");
            let bounds = bounds(name).ok_or_else(unknown)?;
            for part in values.split(';').filter(|part| !part.is_empty()) {
                let parsed = part
                    .split_once('=')
                    .and_then(|(domain, value)| Some((domain.parse::<u32>().ok()?, value.trim())));
                let (domain, value) =
                    parsed.ok_or_else(|| "Missing '=' or non-numeric domain\n".to_owned())?;
                if !new.get(name).is_some_and(|values| values.contains_key(&domain)) {
                    return Err(String::new());
                }
                if !staged.insert((name, domain)) {
                    return Err(format!("Duplicate domain {domain}\n"));
                }
                let value = bounds.take(value)?;
                if let Some(values) = new.get_mut(name) {
                    values.insert(domain, value);
                }
            }
        }
        self.0 = new;
        Ok(())
    }
}
