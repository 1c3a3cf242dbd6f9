use super::*;

#[test]
fn subtrees_end_at_slashes() {
    let within = |top: &str, cgroup| {
        let authority = Authority::Of { uid: Some(1), cgroups: vec![top.to_owned()] };
        is_within(&authority, cgroup)
    };
    for (top, cgroup) in [("/a", "/a"), ("/a", "/a/b/c"), ("/a/", "/a/b"), ("/", "/"), ("/", "/a")]
    {
        assert!(within(top, cgroup), "{cgroup} is not below {top}");
    }
    for (top, cgroup) in [("/a", "/ab"), ("/a", "/"), ("/a/b", "/a"), ("/a", "/b/a")] {
        assert!(!within(top, cgroup), "{cgroup} is below {top}");
    }
    assert!(is_within(&Authority::All, "/a"));
    assert!(!is_within(&Authority::Of { uid: Some(0), cgroups: Vec::new() }, "/a"));
}
