//! The changes that a session makes on the host, as the journal notes them. Pure.

use crate::kernel::Knob;
use serde::{Deserialize, Serialize};

/// The settings that are changed, and what they were before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedSettings {
    /// The kernel's interface that has them.
    pub interface: String,
    /// Whether all of them have been made. Until then a value that is neither the old nor the new one may be ours: the kernel may
    /// have made another value of the written one.
    pub is_complete: bool,
    /// In the order in which they are made; taken back in the opposite one.
    pub knobs: Vec<SettingChange>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingChange {
    pub name: String,
    pub found: String,
    /// The value that it was set to, as the kernel shows it.
    pub set: String,
}

impl ChangedSettings {
    /// The changes that switch offload on, where the settings are as `found`; `None` if a value could not be restored
    /// safely.
    pub fn to_switch_on(interface: &str, wanted: &[Knob], found: &[String]) -> Option<Self> {
        let differ = wanted.iter().zip(found).filter(|(knob, found)| knob.value != **found);
        let knobs: Vec<SettingChange> = differ
            .map(|(Knob { name, value }, found)| SettingChange {
                name: (*name).to_owned(),
                found: found.clone(),
                set: value.clone(),
            })
            .collect();
        let is_plain = knobs.iter().all(SettingChange::is_plain);
        is_plain.then(|| Self { interface: interface.to_owned(), is_complete: false, knobs })
    }

    /// The values to put back, in order. `now` has the present value of a file; `None` if the file is gone, with its
    /// content. A value that another program has written meanwhile stays. Root may read what another user has
    /// written, so only plain values are taken from it.
    pub fn to_put_back<'a>(
        &'a self,
        now: impl Fn(&str) -> Option<String> + 'a,
    ) -> impl Iterator<Item = &'a SettingChange> {
        self.knobs.iter().rev().filter(move |change| {
            let is_ours =
                |now: String| now != change.found && (now == change.set || !self.is_complete);
            change.is_plain() && now(&change.name).is_some_and(is_ours)
        })
    }
}

impl SettingChange {
    /// Whether its values are short words, as kernels show in these files.
    fn is_plain(&self) -> bool {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_,.-".contains(&byte);
        let is_word = |text: &&String| (1..=256).contains(&text.len()) && text.bytes().all(fits);
        [&self.name, &self.found, &self.set].iter().all(is_word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(is_complete: bool) -> ChangedSettings {
        let change = |name: &str, found: &str, set: &str| SettingChange {
            name: name.into(),
            found: found.into(),
            set: set.into(),
        };
        let knobs = vec![change("nr_dma_chan", "1", "4"), change("offloading", "0", "1")];
        ChangedSettings { interface: "dcbm".into(), is_complete, knobs }
    }

    fn put_back(changes: &ChangedSettings, channels: &str, switch: &str) -> Vec<String> {
        let now = |name: &str| {
            let value = if name == "offloading" { switch } else { channels };
            Some(value.to_owned()).filter(|value| !value.is_empty())
        };
        let changes = changes.to_put_back(now);
        changes.map(|change| format!("{}={}", change.name, change.found)).collect()
    }

    #[test]
    fn what_differs_is_changed() {
        let wanted = [("nr_dma_chan", "4"), ("reason_mask", "a,b"), ("offloading", "1")]
            .map(|(name, value)| Knob { name, value: value.into() });
        let found = ["1", "a,b", "0"].map(str::to_owned);
        assert_eq!(ChangedSettings::to_switch_on("dcbm", &wanted, &found), Some(changes(false)));
        let odd = ["1", "a b", "0"].map(str::to_owned);
        assert_eq!(ChangedSettings::to_switch_on("dcbm", &wanted, &odd), None);
    }

    #[test]
    fn it_is_put_back_in_the_opposite_order() {
        assert_eq!(put_back(&changes(true), "4", "1"), ["offloading=0", "nr_dma_chan=1"]);
        assert_eq!(put_back(&changes(true), "1", "0"), [""; 0], "it is so already");
        assert_eq!(put_back(&changes(true), "", ""), [""; 0], "the module is gone");
    }

    #[test]
    fn values_of_another_program_stay_unless_we_were_killed_before_we_could_see() {
        assert_eq!(put_back(&changes(true), "8", "1"), ["offloading=0"]);
        assert_eq!(put_back(&changes(false), "2", "0"), ["nr_dma_chan=1"]);
    }

    #[test]
    fn only_plain_values_are_taken_from_a_note() {
        for value in ["", "a b", "../x", "\n"] {
            let mut changed = changes(false);
            changed.knobs[0].found = value.to_owned();
            assert_eq!(put_back(&changed, "4", "1"), ["offloading=0"], "{value:?}");
        }
    }
}
