//! Scans all processes on the host, or some, and advises on changes that would help them.

use crate::{Aim, Error, Local, labelled::with_labelled};
use numaloc_api::value::Missing;
use numaloc_core::advise::{Finding, advise};
use numaloc_host::{Begun, LookRequest, Looked, Roots};
use std::{borrow::Cow, time::Duration};

/// The scan's findings, and changes that would help.
#[derive(Debug)]
pub struct Advised {
    /// The nodes and subjects of the host.
    pub looked: Looked,
    /// The findings, with the steps that would help.
    pub findings: Vec<Finding>,
    /// Members of the target that take no part.
    pub missing: Vec<Missing>,
}

/// A scan after its first reading. It needs no turn until its second one.
#[derive(Debug)]
pub struct BeforeAdvice {
    begun: Begun,
    aim: Option<Aim>,
    min_bytes: u64,
}

impl Local {
    /// Looks at the processes that `aim` means, or at all of the host; [`BeforeAdvice::end`] looks again `interval`
    /// later, and decides what would help.
    ///
    /// # Errors
    /// Target not found or empty; the host cannot be read.
    pub fn begin_advice(
        &self,
        aim: Option<Aim>,
        interval: Duration,
        min_bytes: u64,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<BeforeAdvice, Error> {
        let roots = &self.roots;
        let aim =
            aim.map(|aim| with_labelled(roots, &aim, stop).map(Cow::into_owned)).transpose()?;
        let members = aim.as_ref().map_or(&[][..], |aim| &aim.members[..]);
        // A target without members must not mean all processes.
        if let Some(Aim { members, missing, .. }) = &aim
            && members.is_empty()
        {
            let message = missing.first().map_or(String::new(), |missing| missing.reason.clone());
            return Err(Error::NotFound { message });
        }
        let targets = members.iter().map(|member| member.target.clone()).collect();
        let begun = Begun::new(stop, roots, &LookRequest { targets, min_bytes, interval })?;
        Ok(BeforeAdvice { begun, aim, min_bytes })
    }
}

impl BeforeAdvice {
    /// Ends the look, and decides.
    pub fn end(self, stop: &(dyn Fn() -> bool + Sync), roots: &Roots) -> Result<Advised, Error> {
        let (members, mut missing) =
            self.aim.map_or_else(Default::default, |aim| (aim.members, aim.missing));
        let mut looked = self.begun.end(stop, roots)?;
        missing.extend(looked.missing.drain(..).map(|left| Missing {
            member: members[left.target].name.clone(),
            reason: left.why.to_string(),
            processes: left.processes,
        }));
        let findings = advise(&looked.look, self.min_bytes);
        Ok(Advised { looked, findings, missing })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_api::value::Target;

    #[test]
    fn a_target_of_which_nothing_is_there_does_not_mean_everybody() {
        let reason = "no workload of this container is registered".to_owned();
        let member = Target { containers: ["a".to_owned()].into(), ..Target::default() };
        let missing = vec![Missing { member, reason: reason.clone(), processes: 0 }];
        let aim = Aim { missing, ..Aim::default() };
        let local = Local::for_tests(Roots::default());
        let refused = local.begin_advice(Some(aim), Duration::ZERO, 4096, &|| false);
        let message = refused.map(drop).expect_err("refused").to_string();
        assert_eq!(message, reason);
    }
}
