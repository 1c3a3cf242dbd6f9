//! What `doctor` finds.

use super::*;

/// Adds the condition of an agent that is a service of its host.
fn of_host(mut node: Value, why_not: Option<&str>) -> Value {
    let status = if why_not.is_none() { "True" } else { "False" };
    let renewed = json!({"type": "CredentialsRenewed", "status": status, "message": why_not.unwrap_or_default()});
    node["status"]["conditions"].as_array_mut().expect("a list").push(renewed);
    node
}

#[test]
fn a_doctor_names_what_does_not_work() {
    let mut cluster = cluster();
    let (text, is_well) = said(&cluster, &Action::Doctor).expect("an answer");
    assert!(!is_well);
    insta::assert_snapshot!(text, @r#"
    ok    definitions  the kinds are installed
    FAIL  agents       1 of 3 nodes have none: c; is the DaemonSet's pod there and ready?
    ok    reports      none is older than 20m
    FAIL  daemons      not reached on 1 nodes (b): no such socket
    ok    figures      each reachable daemon reports its metrics
    ok    cluster      each agent sees its pods and the policies
    ok    sources      policies and ConfigMaps are understood
    ok    results      events and statuses are posted
    ok    versions     0.1.0
    ok    policies     2 policies, each is understood
    "#);
    let mut refusing = node("a", 1, true, "1970-01-01T00:09:00Z");
    for (at, why) in [
        (1, "numalocd refuses GetMetrics: your role is none"),
        (2, "events of shop: exceeded quota"),
        (3, "pods, for 200 s: forbidden"),
        (4, "ConfigMap kube-system/ack-slo-config, key resource-qos-config: EOF"),
    ] {
        let condition = &mut refusing["status"]["conditions"][at];
        condition["status"] = "False".into();
        condition["message"] = why.into();
    }
    let mut older = node("b", 1, true, "1970-01-01T00:09:00Z");
    older["status"]["conditions"].as_array_mut().expect("a list").truncate(2);
    cluster.lists.insert(object::NODE_LOCALITIES.to_owned(), vec![refusing, older]);
    let (text, _) = said(&cluster, &Action::Doctor).expect("an answer");
    let checks = ["figures", "cluster", "sources", "results"];
    let lines: Vec<_> = text
        .lines()
        .filter(|line| checks.iter().any(|check| line[6..].starts_with(check)))
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    warn  figures      not read on 1 nodes (a): numalocd refuses GetMetrics: your role is none
    FAIL  cluster      not read on 1 nodes (a): pods, for 200 s: forbidden
    FAIL  sources      not followed on 1 nodes (a): ConfigMap kube-system/ack-slo-config, key resource-qos-config: EOF
    FAIL  results      refused by the API server on 1 nodes (a): events of shop: exceeded quota
    "#);
    let fine = |name: &str| node(name, 1, true, "1970-01-01T00:09:00Z");
    for (hosts, expected) in [
        (vec![fine("a")], None),
        (
            vec![fine("a"), of_host(fine("b"), None)],
            Some("ok    credentials  each agent with a token of its own renews it"),
        ),
        (
            vec![fine("a"), of_host(fine("b"), Some("no right"))],
            Some("FAIL  credentials  not renewed on 1 nodes (b): no right"),
        ),
    ] {
        cluster.lists.insert(object::NODE_LOCALITIES.to_owned(), hosts);
        let (text, _) = said(&cluster, &Action::Doctor).expect("an answer");
        assert_eq!(text.lines().find(|line| line.contains("credentials")), expected);
    }
    cluster.lists.insert(object::NODE_LOCALITIES.to_owned(), vec![]);
    let (text, is_well) = said(&cluster, &Action::Doctor).expect("an answer");
    assert!(!is_well);
    insta::assert_snapshot!(text, @r#"
    ok    definitions  the kinds are installed
    FAIL  agents       3 of 3 nodes have none: a, b, c; is the DaemonSet's pod there and ready?
    ok    policies     2 policies, each is understood
    "#);
    cluster.lists.remove(object::NODE_LOCALITIES);
    let (text, is_well) = said(&cluster, &Action::Doctor).expect("an answer");
    assert!(!is_well && text.starts_with("FAIL  definitions"), "{text}");
}
