# shellcheck shell=bash
# Nodes and pods as kubelets would have them: sourced after control-plane.sh.
#
#     node NAME                             a node that is ready
#     pod NAME NODE [JSON]                  a pod with one container `main` on it; JSON is merged over the manifest
#     container_of POD ID [NAME]            says in its status that a container of this id runs
#     annotate POD KEY=VALUE...             as users do
#     annotation POD KEY                    prints its value
#     account NAMESPACE NAME                a ServiceAccount
#     token ACCOUNT [POD]                   a token of it, bound to a pod

node() { # NAME
    kubectl apply -f - >/dev/null <<JSON &&
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "$1", "labels": {"kubernetes.io/os": "linux", "kubernetes.io/hostname": "$1"}}}
JSON
        kubectl patch node "$1" --subresource=status --type=merge \
            -p '{"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]}}' >/dev/null
}

# Its container asks for one whole CPU, as one that the static CPU manager pins.
pod() { # NAME NODE [JSON]
    python3 - "$1" "$2" "${3:-"{}"}" <<'PYTHON' | kubectl create -f - >/dev/null
import json, sys
name, node, more = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
amount = {"cpu": "1", "memory": "64Mi"}
def merge(into, other):
    for key, value in other.items():
        into[key] = merge(into[key], value) if isinstance(value, dict) and isinstance(into.get(key), dict) else value
    return into
print(json.dumps(merge({
    "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
    "spec": {"nodeName": node, "automountServiceAccountToken": False, "tolerations": [{"operator": "Exists"}],
             "containers": [{"name": "main", "image": "numaloc.test/busybox:1",
                             "resources": {"requests": amount, "limits": amount}}]},
}, more)))
PYTHON
}

container_of() { # POD ID [NAME]
    kubectl patch pod "$1" --subresource=status --type=strategic -p '{"status": {"phase": "Running", "containerStatuses": [{
        "name": "'"${3:-main}"'", "containerID": "containerd://'"$2"'", "image": "numaloc.test/busybox:1", "imageID": "", "ready": true,
        "restartCount": 0, "started": true, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}]}}' >/dev/null
}

annotate() { kubectl annotate --overwrite pod "$@" >/dev/null; }

annotation() { # POD KEY
    kubectl get pod "$1" -o json | python3 -c 'import json, sys
print(json.load(sys.stdin)["metadata"].get("annotations", {}).get(sys.argv[1], ""))' "$2"
}

token() { # NAMESPACE ACCOUNT [POD]
    kubectl --namespace "$1" create token "$2" ${3:+--bound-object-kind Pod --bound-object-name "$3"}
}
