//! Schedules in files.

use super::*;

#[test]
fn schedules_are_messages_of_the_api() {
    let text = r#"
[[schedule]]
name = "redis"
interval = "10m"
jitter = "500ms"
labels = { team = "db" }
spec.target.units = ["redis-server.service"]
spec.policy.target_ratio_percent = "95%"
spec.limits.rate_bytes_per_second = "1.5G/s"
[[schedule]]
name = "schedules/jvm"
paused = true
[schedule.spec.target]
cgroups = ["/system.slice/jvm.service"]
"#;
    let config = config(text);
    let [redis, jvm] = &config.schedules[..] else { panic!("{:?}", config.schedules) };
    assert_eq!((redis.id.id(), jvm.id.id()), ("redis", "jvm"));
    assert_eq!((redis.spec.interval.as_secs(), redis.spec.jitter.as_millis()), (600, 500));
    assert_eq!(redis.spec.migration.limits.rate_bytes_per_second, Some(3 << 29));
    assert_eq!(redis.spec.labels["team"], "db");
    assert!(redis.spec.migration.target.units.contains("redis-server.service"));
    assert!(!redis.spec.paused && jvm.spec.paused && jvm.spec.interval.is_zero());
}

#[test]
fn wrong_schedules_are_named_with_their_lines() {
    let whole = "[[schedule]]\nname = \"a\"\nspec.target.cgroups = [\"/a\"]\n";
    assert_eq!(problems(whole), [""; 0]);
    let with = |line: &str| format!("{whole}{line}\n");
    check(
        &with("interval = \"5x\""),
        "4: schedule[0].interval: is \"5x\"; expected a duration such",
    );
    check(&with("intervals = \"5s\""), "4: schedule[0].intervals: is not known; known here: name,");
    check(&with("spec.policy.x = 1"), "4: schedule[0].spec.policy.x: is not known; known here: ");
    check(
        &with("spec.limits.timeout = 5"),
        "4: schedule[0].spec.limits.timeout: must be a duration such as \"10m\", and is a number",
    );
    check(&with("interval = \"0.5s\""), "4: schedule[0].interval: must be from 1s to ");
    check(&with("jitter = \"5s\""), "4: schedule[0].jitter: must not be longer than interval");
    check(&with("spec.policy.profile = \"x\""), "4: schedule[0].spec.policy.profile: ");
    check(&with("spec.target.pids = [1]"), "4: schedule[0].spec.target.pids: a pid means another");
    check(
        &whole.replace("\"/a\"", "\"a\""),
        "3: schedule[0].spec.target.cgroups[0]: must be an absolute path",
    );
    check(&whole.replace("name = \"a\"", "name = \"7\""), "2: schedule[0].name: expected letters");
    check(&whole.replace("name = \"a\"\n", ""), "1: schedule[0].name: expected letters");
    check("[[schedule]]\nname = \"a\"\n", "1: schedule[0].spec");
    check(&whole.repeat(2), "5: schedule[1].name: ");
    check("schedule = 5", "1: schedule: expected ");

    let files = [("conf.d/1.toml", whole), ("conf.d/2.toml", whole)];
    let error = read_files(&files).unwrap_err();
    assert!(error.starts_with("conf.d/2.toml:2: schedule[0].name: "), "{error}");
    assert!(error.contains("conf.d/1.toml declares schedules/a already"), "{error}");
    let declared = read_files(&files[..1]).unwrap().config.schedules;
    assert!(declared[0].file.starts_with('/') && declared[0].file.ends_with("/conf.d/1.toml"));
}

#[test]
fn all_mistakes_of_a_schedule_are_named_with_their_lines() {
    let text = "\
[[schedule]]
name = \"7\"
interval = \"5x\"
jitter = \"1h\"
spec.target.cgroups = [\"/a\", \"b\", 3, \"c\"]
[schedule.spec.limits]
timeout = 5
[[schedule]]
name = \"b\"
spec.target.pids = [1]
spec.policy.profil = \"fast\"
";
    let found = problems(text);
    let expected = [
        "2: schedule[0].name: expected letters",
        "3: schedule[0].interval: is \"5x\"; expected a duration such as",
        "5: schedule[0].spec.target.cgroups[2]: must be text, and is a number",
        "5: schedule[0].spec.target.cgroups[1]: must be an absolute path",
        "5: schedule[0].spec.target.cgroups[3]: must be an absolute path",
        "7: schedule[0].spec.limits.timeout: must be a duration such as",
        "10: schedule[1].spec.target.pids: a pid means another",
        "11: schedule[1].spec.policy.profil: is not known",
    ];
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{expected}: {found}");
    }
}
