# shellcheck shell=bash disable=SC2154,SC2034  # variables cross between this and agent
# The class of a node's remote memory, as a NodeFeature of which Node Feature Discovery makes a label. Sourced by agent. Its definition is
# tests/kubernetes/node-feature.yaml: no program of Node Feature Discovery runs here.

features=nodefeatures.nfd.k8s-sigs.io
feature() { kubectl --namespace "$namespace" get "$features" numaloc-node-a "$@"; }

# With the value of the chart: its roles, its admission policy and its agent.toml.
without_the_kind() {
    helm template numaloc packaging/kubernetes/numaloc --namespace "$namespace" --set agent.nodeFeature.enabled=true >"$work/on.yaml" &&
        kubectl apply -f "$work/on.yaml" >/dev/null && end "$agent_pid" || return
    kubectl --namespace "$namespace" get configmap "$account" -o jsonpath='{.data.agent\.toml}' >"$work/agent.toml" && chmod 644 "$work/agent.toml" || return
    grep -x 'node_feature = true' "$work/agent.toml" && start_agent || return
    pod remote node-a && container remote 1 && annotate remote "$locality={\"policy\": \"bestEffort\"}" || return
    patience=100 until_true "a line in the log" grep -F "the cluster does not define NodeFeature" "$work/agent.log" && get readyz
}

# No memory is on the second node that the test shows, so numalocd may have found none that is pinned: the class is then none.
labelled() {
    kubectl apply -f tests/kubernetes/node-feature.yaml && kubectl wait --for condition=Established --timeout 60s "crd/$features" || return
    end "$agent_pid" && start_agent || return
    # numalocd looks at the host's memory once its figures have been read, which is each minute.
    patience=150 until_true "an object" feature || return
    { kubectl get nodememorylocality node-a -o json && feature -o json; } | python3 -c '
import json, sys
decoder, text = json.JSONDecoder(), sys.stdin.read()
locality, end = decoder.raw_decode(text)
feature = decoder.raw_decode(text[end:].lstrip())[0]
local, remote = locality["status"]["localBytes"], locality["status"]["remoteBytes"]
share = remote / (local + remote) if local + remote else 0
print(local, remote, feature)
label = feature["spec"]["labels"]
assert list(label) == ["numaloc.io/remote-share"], label
# The object may be of the reading before.
least = {"none": 0, "low": 0.008, "medium": 0.08, "high": 0.24}[label["numaloc.io/remote-share"]]
most = {"none": 0.01, "low": 0.1, "medium": 0.3, "high": 1}[label["numaloc.io/remote-share"]]
assert least <= share <= most, share
meta = feature["metadata"]
assert meta["labels"]["nfd.node.kubernetes.io/node-name"] == "node-a", meta
assert [(owner["kind"], owner["name"]) for owner in meta["ownerReferences"]] == [("Node", "node-a")], meta'
}

# Written once: the class has not changed. Policies are followed as without it.
written_once() {
    local writes
    has_status remote '"phase":' && has_event remote MemoryLocality || return
    sleep 70
    writes=$(audited | grep -c '"verb":"patch".*"resource":"nodefeatures".*"code":20')
    ((writes == 1)) || { echo "$writes writes" && return 1; }
}

switched_off() {
    kubectl apply -f packaging/kubernetes/manifests/agent.yaml >/dev/null && kubectl --namespace "$namespace" delete "$features" --selector app.kubernetes.io/name=numaloc || return
    ! feature 2>/dev/null
}

checks() {
    inline a_cluster_without_the_kind_is_logged without_the_kind
    inline the_node_has_a_class_of_its_remote_memory labelled
    ((failed == 0)) || return 0
    check it_is_written_once written_once
    check it_asks_for_no_more_than_its_rights asked_for_no_more "patch nodefeatures"
    check its_objects_are_found_by_their_label switched_off
}
