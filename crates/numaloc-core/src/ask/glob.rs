//! Text with `*` and `?`, and paths of cgroups whose components are such text.

/// Text in which `*` stands for any characters, also none and also `/`, and `?` for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(String);

impl Glob {
    /// The glob that is written like this. Any text is one.
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The pattern as the request has it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it may match other text than itself.
    pub fn is_pattern(text: &str) -> bool {
        text.contains(['*', '?'])
    }

    /// Whether all of `text` matches.
    pub fn matches(&self, text: &str) -> bool {
        let (pattern, text): (Vec<char>, Vec<char>) =
            (self.0.chars().collect(), text.chars().collect());
        let (mut at, mut next) = (0, 0);
        // The position of the last `*`, and of the first character after the text that it has matched.
        let mut star: Option<(usize, usize)> = None;
        while at < text.len() {
            match pattern.get(next) {
                Some('*') => {
                    star = Some((next, at));
                    next += 1;
                }
                Some(&wanted) if wanted == '?' || wanted == text[at] => {
                    (at, next) = (at + 1, next + 1)
                }
                _ => {
                    let Some((before, end)) = star else { return false };
                    star = Some((before, end + 1));
                    (at, next) = (end + 1, before + 1);
                }
            }
        }
        pattern[next..].iter().all(|&rest| rest == '*')
    }
}

/// Whether a cgroup is one that a target's path means, or below one: a component of `path` may be a glob.
///
/// ```
/// use numaloc_core::covers_cgroup;
///
/// let docker = "/system.slice/docker-*.scope";
/// assert!(covers_cgroup(docker, "/system.slice/docker-0a1b.scope/init"));
/// assert!(!covers_cgroup(docker, "/system.slice/redis.service") && !covers_cgroup(docker, "/system.slice"));
/// ```
pub fn covers_cgroup(path: &str, cgroup: &str) -> bool {
    let parts = |path| str::split(path, '/').filter(|part| !part.is_empty());
    let mut found = parts(cgroup);
    let is_meant = |part: &str, wanted: &str| {
        if Glob::is_pattern(wanted) { Glob::new(wanted).matches(part) } else { part == wanted }
    };
    parts(path).all(|wanted| found.next().is_some_and(|part| is_meant(part, wanted)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_path_means_cgroups_of_its_depth_and_those_below() {
        for (path, cgroup) in
            [("/", "/a/b"), ("/a", "/a"), ("/a/", "/a/b"), ("/*/b?", "/a/b1/c"), ("/a*c", "/a*c")]
        {
            assert!(covers_cgroup(path, cgroup), "{path} {cgroup}");
        }
        for (path, cgroup) in [("/a", "/ab"), ("/a/*", "/a"), ("/*", "/"), ("/a*", "/b/a")] {
            assert!(!covers_cgroup(path, cgroup), "{path} {cgroup}");
        }
    }

    /// The definition of a glob, without its speed.
    fn slowly(pattern: &[char], text: &[char]) -> bool {
        match (pattern.split_first(), text.split_first()) {
            (None, None) => true,
            (Some(('*', rest)), _) => (0..=text.len()).any(|taken| slowly(rest, &text[taken..])),
            (Some((wanted, rest)), Some((found, after))) => {
                (*wanted == '?' || wanted == found) && slowly(rest, after)
            }
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn globs_match_as_defined(pattern in "[ab*?]{0,8}", text in "[ab]{0,10}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            let slowly = slowly(&chars(&pattern), &chars(&text));
            prop_assert_eq!(Glob::new(&pattern).matches(&text), slowly);
        }
    }
}
