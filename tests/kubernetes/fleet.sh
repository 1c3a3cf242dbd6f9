# shellcheck shell=bash disable=SC2154,SC2034  # variables cross between this and agent
# Many agents that start at once. Sourced by agent.

fleet() { # ARG...
    NUMALOC_API_SERVER=127.0.0.1:$port NUMALOC_PKI=$pki NUMALOC_AUDIT_LOG=$plane/audit.log AGENT=$AGENT NUMALOCCTL=$NUMALOCCTL \
        tests/kubernetes/fleet "$@" 2>&1 | tee -a "$work/figures"
    return "${PIPESTATUS[0]}"
}

# The agent of this node does not disturb.
fifty() {
    end "$agent_pid" && end "$daemon_pid" && mkdir "$work/fleet" && chmod 755 "$work/fleet" || return
    cp systemd/numaloc-agent.grant.toml "$work/grants.toml" && tests/kubernetes/fleet users 50 "" >>"$work/grants.toml" || return
    grants=$work/grants.toml
    start_daemon && fleet prepare 50 "$work/fleet"
}

checks() {
    inline fifty_nodes_have_agents fifty
    inline they_list_once_from_the_cache fleet start 50 "$work/fleet"
    inline a_thousand_are_simulated fleet simulate "$plane/audit.log" 1000
    cat "$work/figures"
}
