# shellcheck shell=bash
# A control plane on this machine: etcd and kube-apiserver, on loopback and with certificates, keys and data in a directory of their own.
# It has no scheduler, no controller and no kubelet: pods carry spec.nodeName, and their status is what a test writes. Sourced by
# check, which sets `work`; the current directory is the top of the repository.
#
#     control_plane             starts both, and ends them with the script
#     kubectl ARG...            as an administrator; in the namespace $scope, if that is set
#     as TOKEN ARG...           as whom a token names
#     audited                   the audit log: a JSON object a line
#
# The programs are fetched and built on first use (tests/tools/kubernetes, etcd, kubectl). etcd and the API server together take 600 MB of
# memory.

# Ports without a listener. Another program may be faster: then the API server does not start, and reports it.
free_ports() { # COUNT
    python3 - "$1" <<'PYTHON'
import socket, sys
sockets = [socket.socket() for _ in range(int(sys.argv[1]))]
for one in sockets:
    one.bind(("127.0.0.1", 0))
print(*(one.getsockname()[1] for one in sockets))
PYTHON
}

# Who asked for what, once for each answered request.
audit_policy() {
    cat <<'YAML'
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
YAML
}

start_etcd() {
    "$etcd/etcd" --data-dir "$plane/etcd" --unsafe-no-fsync \
        --listen-client-urls "http://127.0.0.1:$etcd_port" --advertise-client-urls "http://127.0.0.1:$etcd_port" \
        --listen-peer-urls "http://127.0.0.1:$peer_port" >"$plane/etcd.log" 2>&1 &
    etcd_pid=$!
    processes+=("$etcd_pid")
}

start_apiserver() {
    "$apiserver" --etcd-servers "http://127.0.0.1:$etcd_port" --etcd-prefix /registry \
        --bind-address 127.0.0.1 --advertise-address 192.0.2.1 --endpoint-reconciler-type none --secure-port "$port" --cert-dir "$plane/certs" \
        --tls-cert-file "$pki/server.crt" --tls-private-key-file "$pki/server.key" --client-ca-file "$pki/ca.crt" \
        --service-account-issuer "https://127.0.0.1:$port" --service-account-signing-key-file "$pki/accounts.key" \
        --service-account-key-file "$pki/accounts.key" --authorization-mode RBAC --allow-privileged --service-cluster-ip-range 10.96.0.0/16 \
        --audit-policy-file "$plane/audit.yaml" --audit-log-path "$plane/audit.log" --audit-log-mode blocking \
        >>"$plane/apiserver.log" 2>&1 &
    apiserver_pid=$!
    processes+=("$apiserver_pid")
    local tries
    for ((tries = 0; tries < 600; tries++)); do
        kubectl get --raw /readyz >/dev/null 2>&1 && return
        kill -0 "$apiserver_pid" 2>/dev/null || break
        sleep 0.2
    done
    tail -n 20 "$plane/apiserver.log" >&2
    echo "control plane: kube-apiserver does not become ready" >&2
    return 1
}

kubeconfig() { # SERVER-PORT CREDENTIALS [NAMESPACE]: a user of kubectl, in JSON
    printf '{"apiVersion": "v1", "kind": "Config", "current-context": "test",
 "clusters": [{"name": "test", "cluster": {"server": "https://127.0.0.1:%s", "certificate-authority": "%s"}}],
 "users": [{"name": "test", "user": %s}],
 "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": "%s"}}]}\n' "$1" "$pki/ca.crt" "$2" "${3:-default}"
}

kubectl() { "$tools/kubectl" --kubeconfig "$plane/admin.json" --cache-dir "$plane/cache" ${scope:+--namespace "$scope"} "$@"; }
helm() { KUBECONFIG=$plane/admin.json HELM_CACHE_HOME=$plane/helm HELM_CONFIG_HOME=$plane/helm HELM_DATA_HOME=$plane/helm "$tools/helm" "$@"; }

as() { # TOKEN ARG...
    local token=$1 config
    config=$(mktemp -p "$plane")
    kubeconfig "$port" "{\"token\": \"$token\"}" >"$config"
    "$tools/kubectl" --kubeconfig "$config" --cache-dir "$plane/cache" "${@:2}"
}

audited() { cat "$plane/audit.log"; }

# Nothing of theirs is kept, and an API server without its etcd would not end by itself.
end_control_plane() {
    kill -KILL "${processes[@]}" 2>/dev/null
    wait "${processes[@]}" 2>/dev/null
}

control_plane() {
    plane=$work/plane pki=$work/plane/pki processes=()
    mkdir -p "$pki"
    etcd=$(tests/tools/etcd) && apiserver=$(tests/tools/kubernetes kube-apiserver) && tools=$(tests/tools/kubectl) || return
    read -r port etcd_port peer_port < <(free_ports 3)
    tests/kubernetes/pki "$pki" || return
    audit_policy >"$plane/audit.yaml"
    kubeconfig "$port" "{\"client-certificate\": \"$pki/admin.crt\", \"client-key\": \"$pki/admin.key\"}" >"$plane/admin.json"
    trap 'end_control_plane; rm -rf "$work"' EXIT
    start_etcd
    start_apiserver || return
    # What controllers make in a cluster.
    kubectl create serviceaccount default >/dev/null 2>&1 || true
}
