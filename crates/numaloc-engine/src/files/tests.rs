//! Page cache of files of this machine, on behalf of several authorities.

use super::*;
use numaloc_api::value::MemberState;
use numaloc_core::page_size;
use std::fs;

const NOBODY: Authority =
    Authority::Of { uid: Some(65_533), cgroups: Vec::new(), files: Vec::new() };

fn written(directory: &Path, name: &str) -> PathBuf {
    let path = directory.join(name);
    fs::write(&path, vec![7; 4 * page_size() as usize]).expect("a file");
    path
}

/// Looks at paths on behalf of `authority`, with their cache belonging on a node that is not there.
fn looked(paths: &[&Path], authority: &Authority) -> Vec<PlannedPath> {
    let goal = CacheGoal::On("63".parse().expect("a node"));
    let names = paths.iter().map(|path| path.display().to_string()).collect();
    look(&Roots::default(), &names, &goal, authority, &|| false).expect("not stopped")
}

#[test]
fn files_of_others_are_as_if_they_were_not_there() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let theirs = written(directory.path(), "theirs");
    let none = directory.path().join("none");
    let messages = [&theirs, &none].map(|path| {
        let [PlannedPath { found: Err(error), name, .. }] = &looked(&[path], &NOBODY)[..] else {
            panic!("{path:?} takes part");
        };
        assert!(error.is_missing(), "{error:?}");
        error.to_string().replace(name, "")
    });
    assert_eq!(messages[0], messages[1]);
}

#[test]
fn a_client_sees_the_cache_of_files_that_it_may_have_moved() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let path = written(directory.path(), "theirs").display().to_string();
    let names: BTreeSet<String> = [path.clone(), "/none".to_owned()].into();
    let goal = CacheGoal::On("63".parse().expect("a node"));
    let local = Local::for_tests(Roots::default());
    let seen = |authority: &Authority, goal| seen(&local, &names, goal, authority, &|| false);
    let (files, missing) = seen(&Authority::All, Some(&goal)).expect("one is there");
    let [file] = &files.files[..] else { panic!("{files:?}") };
    assert_eq!((&*file.path, file.bytes, files.count), (&*path, 4 * page_size(), 1));
    assert_eq!(file.nodes.values().sum::<u64>(), 4 * page_size());
    assert_eq!(file.move_bytes, Some(4 * page_size()));
    assert_eq!(missing[0].member, Target::file("/none"));
    let (files, _) = seen(&Authority::All, None).expect("one is there");
    assert_eq!(files.files[0].move_bytes, None, "no plan was asked for");
    assert!(seen(&NOBODY, None).map(drop).expect_err("neither is theirs").is_missing());
}

#[test]
fn a_grant_is_for_all_below_a_directory_by_its_real_path() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let granted = directory.path().join("granted");
    fs::create_dir(&granted).expect("a directory");
    let (inside, outside) = (written(&granted, "a"), written(directory.path(), "b"));
    let link = granted.join("link");
    std::os::unix::fs::symlink(&outside, &link).expect("a link");
    let authority = Authority::Of {
        uid: None,
        cgroups: Vec::new(),
        files: vec![granted.display().to_string()],
    };
    let paths = looked(&[&inside, &link, &granted, &outside], &authority);
    let taking = paths.iter().filter(|path| path.found.is_ok()).map(|path| &*path.name);
    let [granted, inside] = [&granted, &inside].map(|path| path.display().to_string());
    // The file itself counts once.
    assert_eq!(taking.collect::<Vec<_>>(), [&*granted, &inside]);
    assert_eq!(files_of(&paths).count(), 1);
}

#[test]
fn each_path_is_a_member_with_its_cache() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let (path, none) = (written(directory.path(), "a"), directory.path().join("none"));
    let paths = looked(&[&path, &none], &Authority::All);
    check(&paths).expect("one is there");
    let found =
        planned_target(&paths, &CacheGoal::On("63".parse().expect("a node")), Error::to_string);
    let [member, missing] = &found.members[..] else { panic!("{found:?}") };
    assert_eq!(member.remote.values().sum::<u64>(), 4 * page_size());
    assert_eq!((member.home.to_string(), found.nodes.to_string()), ("63".into(), "63".into()));
    let before = member.before.expect("it was looked at").movable;
    assert_eq!((before.local_bytes, before.remote_bytes), (0, 4 * page_size()));
    assert_eq!((missing.state, missing.reason.is_empty()), (MemberState::Missing, false));
    assert_eq!(found.files, [path.display().to_string()].into());
    // Nothing is there at all.
    let paths = looked(&[&none], &Authority::All);
    assert!(check(&paths).expect_err("nothing is there").is_missing());
}

#[test]
fn what_takes_no_part_below_a_directory_is_named() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    written(directory.path(), "a");
    let theirs = Authority::Of {
        uid: None,
        cgroups: Vec::new(),
        files: vec![directory.path().display().to_string()],
    };
    let [path] = &looked(&[directory.path()], &theirs)[..] else { panic!("one path") };
    assert_eq!(path.left_out, None);
    let why = |name: &str| (PathBuf::from(name), HostError::NoFile { path: name.into() });
    let left_out = left_out_below("/x", &[why("/x/a"), why("/x/b"), why("/x/c")]);
    let left_out = left_out.expect("three");
    assert!(left_out.starts_with("left out below /x: /x/a: "), "{left_out}");
    assert!(left_out.ends_with(", and 2 others"), "{left_out}");
}

#[test]
fn a_look_ends_after_some_time_and_when_it_is_cancelled() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let names = [written(directory.path(), "a").display().to_string()].into();
    let goal = CacheGoal::On("63".parse().expect("a node"));
    let within = |longest, control: &Control| {
        look_within(longest, control, |stop| {
            look(&Roots::default(), &names, &goal, &Authority::All, stop)
        })
    };
    let control = Control::default();
    within(LONGEST_LOOK, &control).expect("in time");
    let late = within(Duration::ZERO, &control).expect_err("late");
    assert!(matches!(late, Error::Late { .. }), "{late:?}");
    control.cancel.store(true, Relaxed);
    for longest in [LONGEST_LOOK, Duration::ZERO] {
        let cancelled = within(longest, &control).expect_err("cancelled");
        assert!(cancelled.is_stopped(), "{cancelled:?}");
    }
}

#[test]
fn a_host_with_one_node_has_nowhere_to_go() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let files = [written(directory.path(), "a").display().to_string()].into();
    let aim = Aim { files, ..Aim::default() };
    let local = Local::for_tests(Roots::default());
    let error =
        find(&local, &aim, &Options::default(), &Authority::All, &|| false).expect_err("one node");
    let is_one_node = matches!(error.of_host(), Some(HostError::OneNode { .. }));
    assert!(is_one_node, "{error:?}");
}
