//! The main file and its drop-ins.

use super::*;

#[test]
fn a_missing_file_is_the_defaults_unless_it_was_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("numalocd.toml");
    let read = |path: &std::path::Path, explicit| Loaded::read(path, explicit, DropIns::Beside);
    assert_eq!(read(&path, false).unwrap(), Loaded::default());
    let error = read(&path, true).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{}: cannot be read: ", path.display())), "{error}");
    assert!(read(directory.path(), false).is_err(), "a directory was taken for a file");

    fs::write(&path, "[queue]\nmoves = 0\nfast = true\n").unwrap();
    let error = read(&path, false).unwrap_err().to_string();
    let path = path.display();
    let lines: Vec<_> = error.lines().collect();
    assert_eq!(lines.len(), 2, "{error}");
    assert_eq!(lines[0], format!("{path}:2: queue.moves: 0 is out of range: 1 to 256"));
    assert!(lines[1].starts_with(&format!("{path}:3: queue.fast: unknown field")), "{error}");
}

#[test]
fn drop_ins_add_grants_and_replace_values_in_the_order_of_their_names() {
    let files = [
        (
            "numalocd.toml",
            "[queue]\nmoves = 3\nplans = 4\n[[grants]]\nuser = 1\nrole = \"viewer\"\n",
        ),
        ("conf.d/50-b.toml", "queue.moves = 5\n[[grants]]\nuser = 3\nrole = \"admin\"\n"),
        (
            "conf.d/10-a.toml",
            "[queue]\nmoves = 9\n[[grants]]\nuser = 2\nrole = \"operator\"\nceilings.workers = 7\n",
        ),
        ("conf.d/README", "not read"),
    ];
    let Loaded { config, files, notes } = read_files(&files).unwrap();
    assert_eq!((config.queue.moves, config.queue.plans), (5, 4));
    let to: Vec<_> = config.grants.iter().map(|grant| grant.to.clone()).collect();
    assert_eq!(to, [1, 2, 3].map(Grantee::Uid));
    assert_eq!(config.grants[1].ceilings.workers, 7);
    assert_eq!(files.len(), 3);
    assert_eq!(
        notes,
        [
            "conf.d/10-a.toml:2: queue.moves: replaces the value at numalocd.toml:2",
            "conf.d/50-b.toml:1: queue.moves: replaces the value at conf.d/10-a.toml:2",
        ]
    );
}

#[test]
fn mistakes_in_drop_ins_are_named_with_their_file() {
    let grant = "[[grants]]\nuser = 1\nrole = \"viewer\"\n";
    let error = read_files(&[
        ("numalocd.toml", "[queue]\nmoves = 0\n"),
        ("conf.d/a.toml", grant),
        ("conf.d/b.toml", &format!("# b\n{}[[grants]]\nuser = 2\n", grant.replace('1', "5"))),
        ("conf.d/c.toml", "[queue]\nplan = 1\n"),
    ]);
    let error = error.unwrap_err();
    let lines: Vec<_> = error.lines().collect();
    assert_eq!(lines.len(), 3, "{error}");
    assert_eq!(lines[0], "numalocd.toml:2: queue.moves: 0 is out of range: 1 to 256");
    assert_eq!(lines[1], "conf.d/b.toml:5: grants[1].role: missing; it has to be given here");
    assert!(lines[2].starts_with("conf.d/c.toml:2: queue.plan: unknown field"), "{error}");
}

#[test]
fn a_grant_that_another_file_has_before_is_noted() {
    let grant =
        |to: &str| format!("[[grants]]\n{to}\nrole = \"operator\"\nnames = [\"{}-\"]\n", &to[..1]);
    let files = [("numalocd.toml", grant("user = 7")), ("conf.d/a.toml", grant("user = 7"))];
    let loaded = read_files(&files.each_ref().map(|(path, text)| (*path, text.as_str()))).unwrap();
    assert_eq!((loaded.config.grants.len(), loaded.config.reserved.len()), (1, 1));
    let [note] = &loaded.notes[..] else { panic!("{:?}", loaded.notes) };
    assert!(note.starts_with("conf.d/a.toml:1: this grant has no effect, "), "{note}");
    assert!(
        note.ends_with("The grant to the same one, which comes first: numalocd.toml:1"),
        "{note}"
    );

    // The user `daemon` is in the group `daemon` on every host that has both.
    let group = grant("group = \"daemon\"").replace("names = [\"g-\"]", "");
    let files = [("conf.d/2.toml", &grant("user = \"daemon\"")), ("conf.d/1.toml", &group)];
    let loaded = read_files(&files.map(|(path, text)| (path, text.as_str()))).unwrap();
    assert_eq!(loaded.config.grants.len(), 2, "it holds for those outside of the group");
    let [note] = &loaded.notes[..] else { panic!("{:?}", loaded.notes) };
    assert!(note.starts_with("conf.d/2.toml:1: ") && note.ends_with(": conf.d/1.toml:1"), "{note}");
    let files = [("conf.d/1.toml", files[0].1), ("conf.d/2.toml", files[1].1)];
    let loaded = read_files(&files.map(|(path, text)| (path, text.as_str()))).unwrap();
    assert!(loaded.notes.is_empty(), "{:?}", loaded.notes);
}

#[test]
fn a_grant_after_that_of_all_users_of_the_socket_is_noted() {
    let listen = "[listen]\ngroup = \"daemon\"\n";
    let viewers = "[[grants]]\ngroup = \"daemon\"\nrole = \"viewer\"\n";
    let team = "[[grants]]\ngroup = \"bin\"\nrole = \"operator\"\ncgroups = [\"/shop.slice\"]\n";
    let notes = |first: &str, second: &str| {
        let files =
            [("numalocd.toml", listen), ("conf.d/5.toml", first), ("conf.d/6.toml", second)];
        let loaded = read_files(&files).unwrap();
        assert_eq!(loaded.config.grants.len(), 2, "it holds at other sockets");
        loaded.notes
    };
    let [note] = &notes(viewers, team)[..] else { panic!("one note") };
    assert!(
        note.starts_with("conf.d/6.toml:1: this grant has no effect at /run/numaloc/"),
        "{note}"
    );
    assert!(note.ends_with(": conf.d/5.toml:1"), "{note}");
    assert!(notes(team, viewers).is_empty());
}

#[test]
fn a_named_directory_of_drop_ins_has_to_exist() {
    let directory = tempfile::tempdir().unwrap();
    let (main, other) = (directory.path().join("numalocd.toml"), directory.path().join("other.d"));
    assert!(Loaded::read(&main, false, DropIns::In(&other)).is_err());
    fs::create_dir(&other).unwrap();
    fs::write(other.join("a.toml"), "queue.moves = 4\n").unwrap();
    assert_eq!(Loaded::read(&main, false, DropIns::In(&other)).unwrap().config.queue.moves, 4);
    assert_eq!(Loaded::read(&main, false, DropIns::Beside).unwrap(), Loaded::default());
}

/// An account that does not exist now, because its package was removed or its directory answers later, must not stop
/// the daemon.
#[test]
fn a_grant_to_an_account_that_is_not_there_has_no_effect_and_is_noted() {
    let grants = "[[grants]]\nuser = \"no such\"\nrole = \"operator\"\nnames = [\"kept\"]\n\
                  [[grants]]\ngroup = \"none such\"\nrole = \"viewer\"\n\
                  [[grants]]\nuser = 7\nrole = \"viewer\"\n";
    let Loaded { config, notes, .. } = read_files(&[("numalocd.toml", grants)]).unwrap();
    let to: Vec<_> = config.grants.iter().map(|grant| grant.to.clone()).collect();
    assert_eq!(to, [Grantee::Uid(7)]);
    let says = |note: &str, line: &str, account: &str| {
        note.contains(&format!("numalocd.toml:{line}: {account} does not exist here"))
    };
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(says(&notes[0], "1", "user 'no such'"), "{notes:?}");
    assert!(says(&notes[1], "5", "group 'none such'"), "{notes:?}");
}
