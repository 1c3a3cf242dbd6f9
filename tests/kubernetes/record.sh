# shellcheck shell=bash disable=SC2154
# What the agent asks the API server for and what it is answered, as its tests in memory have it (crates/numaloc-agent/tests/recorded.json):
# whether that is still so. NUMALOC_RECORD=write replaces it. Sourced by agent.

# shellcheck source=tests/kubernetes/failing.sh
. tests/kubernetes/failing.sh

recorded=crates/numaloc-agent/tests/recorded.json

# One of everything that it follows.
objects() {
    kubectl --namespace kube-system create configmap ack-slo-config --from-literal \
        'resource-qos-config={"clusterStrategy": {"lsClass": {"memoryLocality": {"policy": "bestEffort"}}}}' || return
    kubectl apply -f - <<'YAML' || return
apiVersion: numaloc.io/v1alpha1
kind: ClusterMemoryLocalityPolicy
metadata: {name: databases}
spec: {podSelector: {matchLabels: {tier: db}}, schedule: {interval: 10m}}
---
apiVersion: numaloc.io/v1alpha1
kind: MemoryLocalityPolicy
metadata: {name: none, namespace: default}
spec: {podSelector: {matchLabels: {tier: cache}}, schedule: {policy: none}}
YAML
    pod recorded node-a && container recorded 0
}

between() {
    # The Lease is taken while the agent is recorded, and not before.
    end "$agent_pid" && kubectl --namespace kube-system delete lease numaloc-agent --ignore-not-found || return
    tests/kubernetes/recorder serve "127.0.0.1:$port" "$pki" "$work/recorded.json" >"$work/recorder" 2>"$work/recorder.log" &
    processes+=("$!")
    until_true "the recorder listens" test -s "$work/recorder" && recorder_port=$(<"$work/recorder") || return
    cp "$work/agent.json" "$work/direct.json" && sed -i "s|https://127.0.0.1:$port|http://127.0.0.1:$recorder_port|" "$work/agent.json" &&
        start_agent && until_true "it is ready" get readyz
}

life() {
    annotate recorded "$locality={\"policy\": \"bestEffort\"}" && until_true "a status" has_status recorded '"phase":"Completed"' || return
    # The leader writes these, at a time of its own.
    kubectl wait --for=condition=Accepted --timeout=120s memorylocalitypolicy/none clustermemorylocalitypolicy/databases || return
    kubectl --namespace kube-system patch configmap ack-slo-config --type merge --patch '{"data": {"other": "x"}}' &&
        kubectl delete clustermemorylocalitypolicy databases && kubectl label node node-a pool=db || return
    until_true "bookmarks" has_bookmark || until_true "bookmarks" has_bookmark || return
    kubectl delete pod recorded --grace-period 0 --force && until_true "no schedule" has_schedules recorded 0
}
has_bookmark() { grep -q '"BOOKMARK"' "$work/recorded.json"; }

# Each answer that is none, as the real API server gives it.
refusals() {
    local token pods=/api/v1/namespaces/default/pods event
    # Of the first versions neither etcd nor a cache knows any more.
    end "$agent_pid" && end "$apiserver_pid" && forget_history && start_apiserver || return
    token=$(token "$namespace" "$account" agent-a) && pod refused node-a || return
    event=$(python3 -c 'import json, sys
sent = [entry["sent"] for entry in json.load(open(sys.argv[1])) if entry.get("method") == "POST"]
print(next(json.dumps(body) for body in sent if body["kind"] == "Event"))' "$work/recorded.json") || return
    refused "409: posted already" POST /api/v1/namespaces/default/events "$event" &&
        refused "422: another uid" PATCH "$pods/refused/status" '{"metadata": {"uid": "x", "annotations": {"numaloc.io/status": "{}"}}}' &&
        refused "404: no such pod" PATCH "$pods/none/status" '{"metadata": {"annotations": {"numaloc.io/status": "{}"}}}' &&
        refused "404: no such kind" GET /apis/numaloc.io/v9/memorylocalitypolicies &&
        refused "403: no right" GET /api/v1/secrets &&
        refused "422: by the admission policy" PATCH "$pods/refused/status" '{"metadata": {"labels": {"x": "y"}}}' &&
        refused "200: forgotten" GET "/api/v1/pods?watch=true&resourceVersion=1" | grep '"code":410' &&
        token=none refused "401: an expired token" GET /api/v1/pods || return
    no_share && refused "429: too much" GET /api/v1/pods
}
refused() { # NAME METHOD PATH [BODY]: the name begins with HTTP's code
    local output
    output=$(tests/kubernetes/recorder ask "$recorder_port" "$1" "$2" "$3" "$token" "${@:4}")
    echo "$1: $output"
    [[ $output == "${1%%:*} "* ]]
}

compared() {
    if [[ ${NUMALOC_RECORD-} == write ]]; then
        cp "$work/recorded.json" "$recorded" && echo "written: $recorded"
        return
    fi
    tests/kubernetes/recorder compare "$recorded" "$work/recorded.json" ||
        { echo "$recorded is out of date: look at it, and write it by NUMALOC_RECORD=write tests/kubernetes/agent record" && return 1; }
}

checks() {
    inline there_is_one_of_each_object objects
    inline the_agent_is_recorded between
    inline a_pod_lives_and_ends life
    inline requests_are_refused refusals
    inline the_recording_of_the_tests_is_as_this_one compared
}
