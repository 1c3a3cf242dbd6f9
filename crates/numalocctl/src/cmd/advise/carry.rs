//! One finding after the other: its steps, and a second look. Whatever gets worse ends it.

use crate::{
    doc::{FindingEnd, UndoneChange},
    exit::{Code, Failure},
};
use numaloc_core::advise::{Action, Finding, Sight, Who, order::relies, worse};

/// The calls of the host that carrying advice out needs.
pub trait Hands {
    /// Looks at a subject, or at the host. `None`: it has ended.
    fn sight(&mut self, who: Option<&Who>) -> Result<Option<Sight>, Failure>;
    /// Checks that an action works on the intended target.
    fn check(&mut self, action: &Action) -> Result<(), Failure>;
    /// Does a step of a finding. `before`: where the subject's memory was before the first one.
    fn step(&mut self, who: Option<&Who>, action: &Action, before: &Sight)
    -> Result<Code, Failure>;
    /// Takes back all steps since the last call of [`Hands::begin`], the last one first.
    fn take_back(&mut self) -> Vec<UndoneChange>;
    /// Begins a finding.
    fn begin(&mut self);
    /// Whether the user wants no more.
    fn is_stopped(&self) -> bool;
}

/// The action that is about to be taken for a finding.
#[derive(Clone, Copy, Debug)]
pub enum Doing<'a> {
    Step(&'a Action),
    /// The look that decides whether it got worse.
    SecondLook,
}

/// The result of a finding.
#[derive(Clone, Debug)]
pub struct Carried {
    pub end: FindingEnd,
    /// The thing that got worse or failed.
    pub reason: String,
    /// The percentage of its memory on its home to be, before and after.
    pub local: [Option<f64>; 2],
    pub undone: Vec<UndoneChange>,
    /// Nothing of it was begun, because a step would not work on the intended target. Findings that do not rely on it
    /// may follow.
    pub is_refused: bool,
}

impl Carried {
    /// A result of a finding of which nothing else is known.
    pub fn new(end: FindingEnd) -> Self {
        let (reason, undone) = (String::new(), Vec::new());
        Self { end, reason, local: [None, None], undone, is_refused: false }
    }

    /// Whether a finding after it may follow, which relies on it or not.
    fn lets_follow(&self, relies: bool) -> bool {
        match self.is_refused {
            true => !relies,
            false => matches!(self.end, FindingEnd::Done | FindingEnd::Partly | FindingEnd::Gone),
        }
    }
}

/// Carries the findings out until one fails or gets worse, which is taken back at once. A refused one ends only
/// findings that rely on it. `say` gets the number of the finding, from 0, and the next action.
pub fn carry_out(
    hands: &mut impl Hands,
    findings: &[Finding],
    mut say: impl FnMut(usize, Doing<'_>),
) -> Vec<Carried> {
    let mut results: Vec<Carried> = Vec::new();
    for (at, finding) in findings.iter().enumerate() {
        let before = || results.iter().zip(findings);
        let may_follow =
            before().all(|(result, earlier)| result.lets_follow(relies(finding, earlier)));
        let is_refused =
            before().any(|(result, earlier)| result.is_refused && relies(finding, earlier));
        results.push(match may_follow && !hands.is_stopped() {
            true => one(hands, finding, |doing| say(at, doing)),
            false => Carried { is_refused, ..Carried::new(FindingEnd::NotDone) },
        });
    }
    results
}

fn one(hands: &mut impl Hands, finding: &Finding, say: impl FnMut(Doing<'_>)) -> Carried {
    hands.begin();
    let mut result = Carried::new(FindingEnd::Done);
    let stopped = match followed(hands, finding, &mut result, say) {
        Ok(None) => return result,
        Ok(Some(worse)) => (FindingEnd::Worse, worse),
        Err(failure) => (FindingEnd::Failed, failure.to_string()),
    };
    (result.end, result.reason) = stopped;
    result.undone = hands.take_back();
    result
}

/// Does the steps of a finding. Returns what got worse.
fn followed(
    hands: &mut impl Hands,
    finding: &Finding,
    result: &mut Carried,
    mut say: impl FnMut(Doing<'_>),
) -> Result<Option<String>, Failure> {
    let who = finding.who.as_ref();
    let Some(before) = hands.sight(who)? else {
        result.end = FindingEnd::Gone;
        return Ok(None);
    };
    result.local[0] = before.percent_on(&finding.home);
    // All of them, before anything is changed.
    for step in &finding.steps {
        if let Err(failure) = hands.check(&step.action()) {
            result.is_refused = true;
            return Err(failure);
        }
    }
    for step in &finding.steps {
        if hands.is_stopped() {
            return Err(Failure::Usage("interrupted".into()));
        }
        let action = step.action();
        say(Doing::Step(&action));
        if hands.step(who, &action, &before)? == Code::Partly {
            result.end = FindingEnd::Partly;
        }
    }
    say(Doing::SecondLook);
    let after = hands.sight(who)?;
    result.local[1] = after.as_ref().and_then(|after| after.percent_on(&finding.home));
    Ok(worse(&before, after.as_ref(), &finding.home).map(|worse| worse.to_string()))
}

#[cfg(test)]
mod tests;
