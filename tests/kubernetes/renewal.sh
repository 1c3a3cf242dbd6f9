# shellcheck shell=bash disable=SC2154,SC2034  # variables cross between this and agent
# An agent that is a service of its host: it renews the token of its kubeconfig, and continues when that one has ended. Sourced by agent.

host_state=$work/agent-state

# A token as the API server makes them, for node-a. It gives none for less than ten minutes, so this signs one with the server's key.
signed() { # SECONDS
    kubectl get node node-a -o json >"$work/node.json" && kubectl --namespace "$namespace" get serviceaccount "$account" -o json >"$work/account.json" || return
    python3 - "$1" "https://127.0.0.1:$port" "$work/node.json" "$work/account.json" "$pki/accounts.key" <<'PYTHON'
import base64, json, subprocess, sys, time
seconds, issuer, node, account, key = int(sys.argv[1]), sys.argv[2], *(json.load(open(path))["metadata"] for path in sys.argv[3:5]), sys.argv[5]
encoded = lambda data: base64.urlsafe_b64encode(data).rstrip(b"=")
named = lambda meta: {"name": meta["name"], "uid": meta["uid"]}
now = int(time.time())
payload = {"iss": issuer, "aud": [issuer], "iat": now, "nbf": now, "exp": now + seconds,
    "sub": f"system:serviceaccount:{account['namespace']}:{account['name']}",
    "kubernetes.io": {"namespace": account["namespace"], "serviceaccount": named(account), "node": named(node)}}
text = b".".join(encoded(json.dumps(part).encode()) for part in ({"alg": "RS256", "typ": "JWT"}, payload))
signature = subprocess.run(["openssl", "dgst", "-sha256", "-sign", key], input=text, capture_output=True, check=True).stdout
print((text + b"." + encoded(signature)).decode())
PYTHON
}

claim() { # NAME: of the stored token
    python3 -c '
import base64, json, sys
payload = open(sys.argv[1]).read().split(".")[1]
claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
claims["node"], claims["lifetime"] = claims["kubernetes.io"]["node"]["name"], claims["exp"] - claims["iat"]
print(claims[sys.argv[2]])' "$host_state/token" "$1"
}

# The agent of prepare() is a pod. This one has a kubeconfig with a token, and a directory of its own, as systemd gives them.
as_a_service() { # TOKEN
    kubeconfig "$port" "{\"token\": \"$1\"}" "$namespace" >"$work/agent.json"
    export STATE_DIRECTORY=$host_state
    start_agent
}

is_ready() { get readyz; }

replaced_at_once() {
    end "$agent_pid" && mkdir -m 700 "$host_state" && chown "$uid:$uid" "$host_state" || return
    helm template numaloc packaging/kubernetes/numaloc --namespace "$namespace" --set agent.hostService.enabled=true --show-only templates/rbac.yaml |
        kubectl apply -f - || return
    first=$(signed 20) && as "$first" get --raw /version && as_a_service "$first" || return
    until_true "a token is stored" test -s "$host_state/token" || return
    [[ $(stat -c '%a %u' "$host_state/token") == "600 $uid" ]] || { stat "$host_state/token" && return 1; }
    [[ "$(claim node) $(claim lifetime)" == "node-a 604800" ]] || { claim node && claim lifetime && return 1; }
    grep "the token was renewed" "$work/agent.log"
}

# The API server grants each token a minute more than it says.
after_the_end_of_the_first() {
    local tries output
    for ((tries = 0; tries < 120; tries++)); do
        output=$(as "$first" get --raw /version 2>&1) || break
        sleep 1
    done
    [[ $output == *"must be logged in"* || $output == *Unauthorized* ]] || { echo "the first token is not refused: $output" && return 1; }
    pod renewed node-a && container renewed 0 && annotate renewed "$locality={\"policy\": \"bestEffort\"}" || return
    until_true "a status" has_status renewed '"phase":"Completed"' && until_true "it is ready" is_ready
}

# By the stored token: that of the kubeconfig has ended.
started_again() {
    end "$agent_pid" && start_agent && until_true "it is ready" is_ready || return
    pod again node-a && container again 0 && annotate again "$locality={\"policy\": \"bestEffort\"}" || return
    until_true "a status" has_status again '"phase":"Completed"'
}

# A host that was off for too long.
both_have_ended() {
    end "$agent_pid" && rm "$host_state/token" && start_agent || return
    until_true "a line in the log" grep -F "kubectl --namespace $namespace create token $account --bound-object-kind Node --bound-object-name node-a" \
        "$work/agent.log"
}

# The command of the log, and a restart.
a_new_one_is_made() {
    local made
    end "$agent_pid" && made=$(kubectl --namespace "$namespace" create token "$account" --bound-object-kind Node --bound-object-name node-a --duration 24h) || return
    as_a_service "$made" && until_true "it is ready" is_ready && until_true "the next one is stored" test -s "$host_state/token"
}

# Without the value of the chart, which its condition reports.
without_the_right() {
    kubectl apply -f packaging/kubernetes/manifests/agent.yaml >/dev/null && end "$agent_pid" && rm "$host_state/token" && start_agent || return
    until_true "a line in the log" grep -F "set agent.hostService.enabled of the chart" "$work/agent.log" || return
    # The node's object is written when numalocd's figures are read, each minute.
    patience=90 until_true "a condition" says_so && plugin_says
}
says_so() { kubectl get nodememorylocality node-a -o json | grep -F "set agent.hostService.enabled of the chart"; }
plugin_says() { { plugin doctor || true; } | grep "FAIL  credentials .*set agent.hostService.enabled of the chart"; }

checks() {
    inline a_service_of_the_host_renews_its_first_token replaced_at_once
    ((failed == 0)) || return 0
    inline it_continues_after_the_first_token_has_ended after_the_end_of_the_first
    inline it_begins_with_the_stored_token started_again
    # The version is what this script asks for, by the agent's first token.
    check it_asks_for_no_more_than_its_rights asked_for_no_more "create serviceaccounts/token" "get /version"
    inline it_logs_what_to_do_when_both_have_ended both_have_ended
    inline that_is_enough a_new_one_is_made
    inline a_missing_right_is_a_condition without_the_right
}
