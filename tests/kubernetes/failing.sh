# shellcheck shell=bash disable=SC2154
# The API server does not answer, has forgotten, or has too much to do: schedules continue at numalocd, and within 30 s of its return all is
# caught up with. Sourced by agent.
#
# A second API server, on the same etcd, is the one that users still reach; the agent knows the first.

# What numalocd has, with the times at which it was made: that of one that was deleted and made again is another one.
made() { schedules_json | python3 -c '
import json, sys
for schedule in json.load(sys.stdin).get("schedules", []):
    print(schedule["name"], schedule["create_time"])' | sort; }
schedules_json() { NUMALOC_ENDPOINT=unix:///run/numaloc/numalocd.sock "$NUMALOCCTL" schedules ls --output json "$@"; }

# --- Users that reach another API server

start_other() {
    local first=$port first_pid=$apiserver_pid status=0
    read -r port < <(free_ports 1)
    kubeconfig "$port" "{\"client-certificate\": \"$pki/admin.crt\", \"client-key\": \"$pki/admin.key\"}" >"$plane/other.json"
    cp "$plane/admin.json" "$plane/first.json" && cp "$plane/other.json" "$plane/admin.json"
    start_apiserver || status=$?
    other_pid=$apiserver_pid apiserver_pid=$first_pid port=$first
    cp "$plane/first.json" "$plane/admin.json"
    return "$status"
}
to_other() { cp "$plane/other.json" "$plane/admin.json"; }
to_first() { cp "$plane/first.json" "$plane/admin.json"; }

# --- Pods

# Each has a name of its own: what was said about the last one counts no more.
begin() { # ROUND
    new=new-$1 closed=closed-$1 removed=removed-$1
    for name in "$new" "$closed" "$removed"; do
        pod "$name" node-a && container "$name" 0 || return
    done
    annotate "$closed" "$locality={\"policy\": \"bestEffort\", \"migrateIntervalMinutes\": 10}"
    annotate "$removed" "$locality={\"policy\": \"bestEffort\"}"
    until_true "the status of $closed" has_status "$closed" '"phase":"InProgress"' && until_true "that of $removed" has_status "$removed" '"phase":"Completed"' &&
        has_schedules "$closed" 1 && has_schedules "$removed" 1
}

changes() {
    annotate "$new" "$locality={\"policy\": \"bestEffort\"}" && annotate "$closed" "$locality={\"policy\": \"none\"}" &&
        kubectl delete pod "$removed" --grace-period 0 --force --wait=false
}

# All changes are done, and the rest stays as it was: nothing else was deleted, made again or told a second time.
caught_up() { # BEFORE-SCHEDULES BEFORE-EVENTS
    local begin=$SECONDS after
    until_true "a schedule for $new" has_schedules "$new" 1 && until_true "its status" has_status "$new" '"phase":"Completed"' &&
        until_true "$closed is closed" has_status "$closed" '"phase":"Closed"' && until_true "it has no schedule" has_schedules "$closed" 0 &&
        until_true "nor has $removed" no_schedule "$removed" || return
    echo "caught up within $((SECONDS - begin)) s" | tee -a "$work/figures"
    ((SECONDS - begin <= 30)) || return
    has_events "$new" 1 || { events "$new" && return 1; }
    after=$(made) || return
    # But for those of this round.
    diff <(grep -v -e "$removed_uid" -e "$closed_uid" <<<"$1") <(grep -v "$new_uid" <<<"$after") || return
    diff <(echo "$2") <(kubectl get events -o name | grep -v -e "/$new\." | sort)
}
no_schedule() { ! schedules | grep -qF "$removed_uid"; }
uid_of() { kubectl get pod "$1" -o jsonpath='{.metadata.uid}'; }
remember() {
    new_uid=$(uid_of "$new") && closed_uid=$(uid_of "$closed") && removed_uid=$(uid_of "$removed") && schedules_before=$(made) &&
        events_before=$(kubectl get events -o name | sort)
}

# --- What is checked

# For so long the API server that the agent knows is stopped.
hung() { # ROUND SECONDS
    local ran
    begin "$1" && remember && ran=$(last_run) || return
    kill -STOP "$apiserver_pid" && to_other || return
    sleep 2 && changes && sleep "$2"
    [[ $(made) == "$schedules_before" ]] || { echo "schedules have changed meanwhile" && diff <(made) <(echo "$schedules_before") && return 1; }
    # One repeats each minute.
    (($2 < 90)) || (($(last_run) > ran)) || { echo "it has not run since" && return 1; }
    kill -CONT "$apiserver_pid" && caught_up "$schedules_before" "$events_before"
    local status=$?
    to_first
    return "$status"
}
last_run() { schedules_json --label "numaloc.io/pod=minutely" | python3 -c '
import datetime, json, sys
print(int(datetime.datetime.fromisoformat(json.load(sys.stdin)["schedules"][0]["last_run_time"].replace("Z", "+00:00")).timestamp()))'; }
minutely() {
    pod minutely node-a && container minutely 0 && annotate minutely "$locality={\"policy\": \"bestEffort\", \"migrateIntervalMinutes\": 1}" &&
        until_true "a status" has_status minutely '"phase":"InProgress"'
}

# What an agent has been told is lost from the history: etcd is compacted while no API server is there, and a pod goes without a word.
forgotten() {
    begin forgotten && remember || return
    annotate "$new" "$locality={\"policy\": \"bestEffort\"}" && annotate "$closed" "$locality={\"policy\": \"none\"}" || return
    until_true "$closed is closed" has_status "$closed" '"phase":"Closed"' && until_true "a status" has_status "$new" '"phase":"Completed"' || return
    local expired
    expired=$(expired)
    end "$other_pid" && end "$apiserver_pid" && forget_history "$removed" || return
    sleep 2
    schedules | grep -qF "$removed_uid" || { echo "$removed has lost its schedule, of which nobody has told" && return 1; }
    start_apiserver && caught_up "$schedules_before" "$events_before" || return
    (($(expired) > expired)) || { echo "no watch was told that its version is forgotten" && return 1; }
}
# How often the agent was told so.
expired() { grep -c "has forgotten this version" "$work/agent.log"; }
forget_history() { # [POD]: etcd forgets all that was, and a pod, of which it tells nobody
    python3 - "$etcd_port" "/registry/pods/default/${1-none}" <<'PYTHON'
import base64, json, sys, urllib.request
def ask(path, body):
    address = f"http://127.0.0.1:{sys.argv[1]}/v3/kv/{path}"
    return json.load(urllib.request.urlopen(urllib.request.Request(address, json.dumps(body).encode())))
gone = ask("deleterange", {"key": base64.b64encode(sys.argv[2].encode()).decode()})
ask("compaction", {"revision": gone["header"]["revision"], "physical": True})
PYTHON
}

# The agent's requests have no share of the API server but one at a time, together with those of another account (priority and fairness).
# That one begins a request and does not end it: all others are answered with 429.
no_share() {
    kubectl create serviceaccount slow &&
        kubectl create clusterrolebinding slow --clusterrole cluster-admin --serviceaccount default:slow || return
    kubectl apply -f - <<YAML || return
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: PriorityLevelConfiguration
metadata: {name: none}
spec: {type: Limited, limited: {nominalConcurrencyShares: 0, lendablePercent: 0, borrowingLimitPercent: 0, limitResponse: {type: Reject}}}
---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: agent}
spec:
  priorityLevelConfiguration: {name: none}
  matchingPrecedence: 2
  rules:
    - subjects:
        - {kind: ServiceAccount, serviceAccount: {name: $account, namespace: $namespace}}
        - {kind: ServiceAccount, serviceAccount: {name: slow, namespace: default}}
      resourceRules: [{verbs: ["*"], apiGroups: ["*"], resources: ["*"], namespaces: ["*"], clusterScope: true}]
YAML
    slow_token=$(token default slow) || return
    slowly "$slow_token" &
    slow_pid=$!
    processes+=("$slow_pid")
    until_true "429" is_too_much
}
is_too_much() { tests/kubernetes/request "$pki/ca.crt" "127.0.0.1:$port" "$slow_token" GET /api/v1/namespaces/default/configmaps | grep ^429; }
slowly() { # TOKEN: a request of which the body never comes, again and again
    exec python3 - "$pki/ca.crt" "$port" "$1" <<'PYTHON'
import socket, ssl, sys, time
authority, port, token = sys.argv[1:]
context = ssl.create_default_context(cafile=authority)
head = (f"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n")
while True:
    try:
        with socket.create_connection(("127.0.0.1", int(port)), 5) as plain, context.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
            connection.settimeout(90)
            connection.sendall(head.encode())
            connection.recv(4096)
    except OSError:
        time.sleep(0.05)
PYTHON
}
too_much() { get metrics | grep 'too_much' | grep -E "${1:-.}" | awk '{ sum += $2 } END { print sum + 0 }'; }
is_more_than() { (($(too_much "${2-}") > $1)); } # COUNT [WORDS]
busy() {
    begin busy && remember || return
    local before
    before=$(too_much)
    no_share && changes || return
    # Its watches have begun already: schedules follow, and what is to be written waits.
    until_true "a schedule for $new" has_schedules "$new" 1 && until_true "429 for what it writes" is_more_than "$before" || return
    has_events "$new" 0 || { events "$new" && return 1; }
    # And now they do not begin either.
    before=$(too_much "list|watch")
    end "$apiserver_pid" && start_apiserver && until_true "429 for watches" is_more_than "$before" "list|watch" || return
    get metrics | grep 'too_much'
    has_schedules "$new" 1 && kubectl delete flowschema agent && end "$slow_pid" && caught_up "$schedules_before" "$events_before"
}

checks() {
    inline another_api_server_starts start_other
    inline one_repeats_each_minute minutely
    inline an_api_server_that_hangs_is_caught_up_with hung short 20
    # Longer than a watch may be silent: the agent gives up its connections.
    inline an_api_server_that_hangs_for_long_is_caught_up_with hung long 150
    inline what_is_forgotten_is_listed_again forgotten
    inline too_many_requests_are_waited_for busy
    cat "$work/figures"
}
