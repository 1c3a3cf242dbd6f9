# shellcheck shell=bash disable=SC2154
# Agent, numalocd and API server are killed at random, NUMALOC_KILLS times (200). Meanwhile a policy of the cluster is good, bad and gone in
# turn, the ConfigMap of nodes is broken and mended, namespaces end while their pods have runs, and one may have no events. Sourced by agent.

rounds=${NUMALOC_KILLS:-200}
map=ack-slo-config refused=full

# Functions of `agent` and of the fixture are for pods of the namespace `default`, or inside of in_namespace of that one.
in_namespace() { # NAMESPACE COMMAND...
    local scope=$1
    "${@:2}"
}
namespace_of_its_own() { kubectl create namespace "$1" && kubectl --namespace "$1" create serviceaccount default; } # NAME
pod_in() { pod "$2" node-a '{"metadata": {"namespace": "'"$1"'"}}'; } # NAMESPACE POD

# --- What changes

# The Nth state of the policy `flipping`. The definitions leave the largest size to the agent.
flip() { # N
    local policy
    case $(($1 % 3)) in
    0) policy='{"policy": {"target_ratio_percent": 95}}' ;;
    1) policy='{"policy": {"reserve_bytes": "9999999TiB"}}' ;;
    2) kubectl delete clustermemorylocalitypolicy flipping && return ;;
    esac
    echo '{"apiVersion": "numaloc.io/v1alpha1", "kind": "ClusterMemoryLocalityPolicy", "metadata": {"name": "flipping"}, "spec": {
        "podSelector": {"matchLabels": {"tier": "flipping"}}, "schedule": {"interval": "10m", "spec": '"$policy"'}}}' | kubectl apply --filename -
}

# The Nth state of the ConfigMap: the same decision, or no JSON.
break_map() { # N
    local text='{"clusterStrategy": {"lsClass": {"memoryLocality": {"policy": "bestEffort", "migrateIntervalMinutes": 10}}}}'
    (($1 % 2 == 0)) || text='{"clusterStrategy": {'
    kubectl --namespace kube-system create configmap "$map" --from-literal "resource-qos-config=$text" --dry-run=client --output json |
        kubectl apply --server-side --force-conflicts --filename -
}

# A namespace with a pod whose run is asked for at the moment in which the namespace ends. No controller removes anything here.
end_namespace() { # N
    namespace_of_its_own "ending-$1" && pod_in "ending-$1" last || return
    in_namespace "ending-$1" container last 0 && in_namespace "ending-$1" annotate last "$locality={\"policy\": \"bestEffort\"}" || return
    kubectl delete namespace "ending-$1" --wait=false
}

# As an admission webhook for quotas refuses: the API server's own quota leaves events alone.
no_events() {
    namespace_of_its_own "$refused" && kubectl apply --filename - <<'YAML'
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: quota}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [events]}]}
  matchConditions: [{name: namespace, expression: object.metadata.namespace == 'full'}]
  validations: [{expression: "false", reason: Forbidden, message: "exceeded quota: events"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: quota}
spec: {policyName: quota, validationActions: [Deny]}
YAML
}

# --- What is checked

of_schedule() { # POD: name and time of each schedule, which tell one that was made again
    NUMALOC_ENDPOINT=unix:///run/numaloc/numalocd.sock "$NUMALOCCTL" schedules ls --output json --label "numaloc.io/pod=$1" | python3 -c '
import json, sys
for schedule in json.load(sys.stdin).get("schedules", []):
    print(schedule["name"], schedule["create_time"])'
}

begin() {
    no_events && break_map 0 && flip 0 || return
    pod labelled node-a '{"metadata": {"labels": {"koordinator.sh/qosClass": "LS"}}}' && container labelled 0 || return
    pod flipping node-a '{"metadata": {"labels": {"tier": "flipping"}}}' && container flipping 0 || return
    until_true "the ConfigMap decides" has_schedules labelled 1 && until_true "the policy decides" has_schedules flipping 1 || return
    of_labelled=$(of_schedule labelled)
}

as_it_was() { [[ $(of_schedule labelled) == "$of_labelled" ]]; }

once() { # PLACE ROUND: a pod whose policy runs once
    pod_in "$1" "run-$2" && in_namespace "$1" container "run-$2" 0 && in_namespace "$1" annotate "run-$2" "$locality={\"policy\": \"bestEffort\"}"
}

chaos() {
    local round
    for ((round = 0; round < rounds; round++)); do
        once default "$round" || return
        ((round % 10)) || once "$refused" "$round" || return
        ((round % 20)) || end_namespace "$round" || return
        flip "$round" && break_map "$round" || return
        sleep "0.$((RANDOM % 900 + 100))"
        case $((RANDOM % 3)) in
        0) end "$agent_pid" && start_agent ;;
        1) end "$daemon_pid" && start_daemon ;;
        2) end "$apiserver_pid" && start_apiserver ;;
        esac || return
        # What broke is as it was read last, also by an agent that has started since.
        until_true "round $round: the schedule as it was, '$of_labelled'" as_it_was || { of_schedule labelled && return 1; }
    done
}

# Each run is reported once, and each pod has one schedule. Where events are refused, the status has the result.
each_run_is_reported_once() {
    local round name wrong=0
    for ((round = 0; round < rounds; round++)); do
        name=run-$round
        until_true "the status of $name" has_status "$name" '"phase":"Completed"' || return
        [[ $(events "$name" | grep -c MemoryLocality) == 1 ]] || { ((++wrong)) && events "$name"; }
    done
    for ((round = 0; round < rounds; round += 10)); do
        name=run-$round
        until_true "the status of $name of $refused" in_namespace "$refused" has_status "$name" '"phase":"Completed"' || return
        [[ -z $(in_namespace "$refused" events "$name") ]] || { ((++wrong)) && in_namespace "$refused" events "$name"; }
    done
    schedules --output json | python3 -c '
import collections, json, sys
keys = [f"numaloc.io/{part}" for part in ("namespace", "pod", "container")]
of = collections.Counter(tuple(schedule["labels"][key] for key in keys) for schedule in json.load(sys.stdin)["schedules"])
twice = [name for name, count in of.items() if count > 1]
assert not twice, twice' || ((++wrong))
    ((wrong == 0))
}

# The last decisions are in force, and what is bad is named at its object and at the node.
bad_objects_are_named() {
    break_map 1 && flip 1 || return
    patience=120 until_true "the ConfigMap is named" named ConfigMap "$map" && patience=120 until_true "the policy is named" named ClusterMemoryLocalityPolicy flipping || return
    once "$refused" again && patience=120 until_true "the namespace is named" condition ResultsPosted False "$refused" || return
    # Of several that are bad, the node names one.
    patience=120 until_true "the node names one" condition PoliciesAccepted False "" && patience=150 until_true "the policy is not accepted" is_accepted False || return
    flip 0 && break_map 0 && patience=120 until_true "one schedule of the policy" has_schedules flipping 1 && patience=150 until_true "the policy is accepted" is_accepted True && as_it_was
}
is_accepted() { # STATUS
    [[ $(kubectl get clustermemorylocalitypolicy flipping -o jsonpath='{.status.conditions[?(@.type=="Accepted")].status}') == "$1" ]]
}
named() { # KIND NAME: by a warning of the agent
    kubectl get events --all-namespaces --field-selector "involvedObject.kind=$1,involvedObject.name=$2,type=Warning" -o name | grep .
}
condition() { # TYPE STATUS WORDS: of the node's object
    kubectl get nodememorylocality node-a -o json | python3 -c '
import json, sys
kind, status, words = sys.argv[1:]
[found] = [it for it in json.load(sys.stdin)["status"]["conditions"] if it["type"] == kind]
assert found["status"] == status and words in found["message"], found' "$@"
}

# An object has 25 at once, and then one in five minutes. One that was deleted and made again is another one.
events_are_within_budget() {
    kubectl get events --all-namespaces -o json | python3 -c '
import collections, json, sys
about = collections.Counter()
for event in json.load(sys.stdin)["items"]:
    if event.get("reportingComponent") == "numaloc-agent":
        subject = event["involvedObject"]
        about[subject["kind"], subject["name"], subject.get("uid")] += event.get("count") or 1
most = 25 + int(sys.argv[1]) // 300 + 1
print(about.most_common(3))
assert about and about.most_common(1)[0][1] <= most, (most, about.most_common(3))' "$((SECONDS - begun))"
}

# Pods and policies are gone, as before an uninstall.
nothing_is_left() {
    kubectl delete clustermemorylocalitypolicies --all && kubectl --namespace kube-system delete configmap "$map" &&
        kubectl delete pods --all-namespaces --field-selector metadata.namespace!=kube-system --grace-period 0 --force || return
    patience=120 until_true "numalocd has no schedule" no_schedules
}
no_schedules() { [[ -z $(schedules) ]]; }

checks() {
    begun=$SECONDS
    inline all_decide begin
    ((failed == 0)) || return
    inline "killed_${rounds}_times_it_keeps_what_was_read_last" chaos
    inline each_run_is_reported_once each_run_is_reported_once
    inline bad_objects_are_named bad_objects_are_named
    check events_are_within_budget events_are_within_budget
    inline nothing_is_left nothing_is_left
    check it_asks_for_no_more_than_its_rights asked_for_no_more
}
