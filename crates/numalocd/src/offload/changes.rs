//! What a session changes on the host, step by step. After a death between any two steps, the saved record and the settings tell
//! what is left to do. Pure, but for the text of the record.

use crate::saved::Saved;
use numaloc_host::offload::Knob;
use std::{fmt, str::FromStr};

/// The settings that are changed, and what they were before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    /// The kernel's interface that has them.
    pub interface: String,
    /// Whether all of them have been made. Until then a value that is neither the old nor the new one may be ours: the kernel may
    /// have made another one of what was written.
    pub is_complete: bool,
    /// In the order in which they are made; taken back in the opposite one.
    pub knobs: Vec<Change>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its file.
    pub name: String,
    /// What it was before.
    pub found: String,
    /// What it was set to, as the kernel shows it.
    pub set: String,
}

/// One change, of the record or of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Saves what was found.
    Save(Saved<Changes>),
    /// Writes a value to a file of the interface.
    Set(String, String),
    /// Notes that all has been set, with the values that the kernel shows by then.
    Confirm(Saved<Changes>),
    /// Removes the record, which is no longer needed.
    Forget,
}

/// The steps that switch offload on, where the settings are as `found`; `None` if a value cannot be kept as text.
pub fn to_switch_on(
    interface: &str,
    wanted: &[Knob],
    found: &[String],
    boot: &str,
) -> Option<Vec<Step>> {
    let differ = wanted.iter().zip(found).filter(|(knob, found)| knob.value != **found);
    let knobs: Vec<Change> = differ
        .map(|(Knob { name, value }, found)| Change {
            name: (*name).to_owned(),
            found: found.clone(),
            set: value.clone(),
        })
        .collect();
    if !knobs
        .iter()
        .all(|knob| [&knob.name, &knob.found, &knob.set].into_iter().all(|text| is_plain(text)))
    {
        return None;
    }
    let set = |knob: &Change| Step::Set(knob.name.clone(), knob.set.clone());
    let sets: Vec<Step> = knobs.iter().map(set).collect();
    let changes = Changes { interface: interface.to_owned(), is_complete: false, knobs };
    let saved = Saved { value: changes, of: boot.to_owned() };
    Some([vec![Step::Save(saved.clone())], sets, vec![Step::Confirm(saved)]].concat())
}

/// The steps that put back what was found. `now` has the present value of a file; `None` if it is gone, with all that was in it. A
/// value that somebody else has written meanwhile stays. So do all after a boot, which has set them anew.
pub fn to_put_back(
    saved: &Saved<Changes>,
    now: impl Fn(&str) -> Option<String>,
    boot: &str,
) -> Vec<Step> {
    let is_ours = |change: &&Change| {
        now(&change.name).is_some_and(|now| {
            now != change.found && (now == change.set || !saved.value.is_complete)
        })
    };
    let set = |change: &Change| Step::Set(change.name.clone(), change.found.clone());
    let ours = saved.value.knobs.iter().rev().filter(|_| saved.of == boot).filter(is_ours);
    ours.map(set).chain([Step::Forget]).collect()
}

/// Whether a value can be kept: what kernels show in these files is short and plain.
fn is_plain(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_,.-".contains(&byte);
    (1..=256).contains(&text.len()) && text.bytes().all(fits)
}

impl fmt::Display for Changes {
    /// `dcbm complete nr_dma_chan=1>4 offloading=0>1`, or with `begun` as the second word.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { interface, is_complete, knobs } = self;
        write!(f, "{interface} {}", if *is_complete { "complete" } else { "begun" })?;
        knobs.iter().try_for_each(|Change { name, found, set }| write!(f, " {name}={found}>{set}"))
    }
}

impl FromStr for Changes {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut words = text.split(' ');
        let interface = words.next().filter(|word| !word.is_empty()).ok_or(())?.to_owned();
        let is_complete = match words.next() {
            Some("complete") => true,
            Some("begun") => false,
            _ => return Err(()),
        };
        let one = |word: &str| {
            let (name, values) = word.split_once('=')?;
            let (found, set) = values.split_once('>')?;
            let [name, found, set] = [name, found, set].map(str::to_owned);
            let plain = [&name, &found, &set].into_iter().all(|text| is_plain(text));
            plain.then_some(Change { name, found, set })
        };
        let knobs = words.map(|word| one(word).ok_or(())).collect::<Result<_, _>>()?;
        Ok(Self { interface, is_complete, knobs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOOT: &str = "boot-1";

    fn changes(is_complete: bool) -> Saved<Changes> {
        let change = |name: &str, found: &str, set: &str| Change {
            name: name.into(),
            found: found.into(),
            set: set.into(),
        };
        let knobs = vec![change("nr_dma_chan", "1", "4"), change("offloading", "0", "1")];
        Saved { value: Changes { interface: "dcbm".into(), is_complete, knobs }, of: BOOT.into() }
    }

    fn put_back(saved: &Saved<Changes>, channels: &str, switch: &str) -> Vec<Step> {
        let now = |name: &str| {
            let value = if name == "offloading" { switch } else { channels };
            Some(value.to_owned()).filter(|value| !value.is_empty())
        };
        to_put_back(saved, now, BOOT)
    }

    fn set(name: &str, value: &str) -> Step {
        Step::Set(name.into(), value.into())
    }

    #[test]
    fn what_differs_is_saved_then_set_then_confirmed() {
        let wanted = [("nr_dma_chan", "4"), ("reason_mask", "a,b"), ("offloading", "1")]
            .map(|(name, value)| Knob { name, value: value.into() });
        let found = ["1", "a,b", "0"].map(str::to_owned);
        let steps = to_switch_on("dcbm", &wanted, &found, BOOT).expect("plain");
        let saved = changes(false);
        let sets = [set("nr_dma_chan", "4"), set("offloading", "1")];
        assert_eq!(steps[0], Step::Save(saved.clone()));
        assert_eq!((&steps[1..3], &steps[3]), (&sets[..], &Step::Confirm(saved)));
        let odd = ["1", "a b", "0"].map(str::to_owned);
        assert_eq!(to_switch_on("dcbm", &wanted, &odd, BOOT), None);
    }

    #[test]
    fn it_is_put_back_in_the_opposite_order() {
        let back = [set("offloading", "0"), set("nr_dma_chan", "1"), Step::Forget];
        assert_eq!(put_back(&changes(true), "4", "1"), back);
        assert_eq!(put_back(&changes(true), "1", "0"), [Step::Forget], "it is so already");
        assert_eq!(put_back(&changes(true), "", ""), [Step::Forget], "the module is gone");
        let now = |_: &str| Some("4".to_owned());
        assert_eq!(to_put_back(&changes(true), now, "boot-2"), [Step::Forget]);
    }

    #[test]
    fn what_somebody_else_wrote_stays_unless_we_were_killed_before_we_could_see() {
        assert_eq!(put_back(&changes(true), "8", "1"), [set("offloading", "0"), Step::Forget]);
        let clamped = [set("nr_dma_chan", "1"), Step::Forget];
        assert_eq!(put_back(&changes(false), "2", "0"), clamped);
    }

    #[test]
    fn other_text_is_none() {
        for text in ["", "dcbm", "dcbm x", "dcbm complete a", "dcbm begun a=1", "dcbm begun a=>1"] {
            assert_eq!(text.parse::<Changes>(), Err(()), "{text}");
        }
        assert_eq!("dcbm begun ../x=0>1".parse::<Changes>(), Err(()), "no path");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(is_complete: bool, knobs in prop::collection::vec(
            ("[a-z_]{1,9}", "[0-9a-z_,]{1,9}", "[0-9]{1,9}"), 0..4)) {
            let knobs = knobs.into_iter().map(|(name, found, set)| Change { name, found, set });
            let changes =
                Changes { interface: "dcbm".into(), is_complete, knobs: knobs.collect() };
            prop_assert_eq!(changes.to_string().parse(), Ok(changes));
        }
    }
}
