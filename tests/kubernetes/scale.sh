# shellcheck shell=bash disable=SC2154
# Many pods on a node: how fast, how many requests, how much memory. Sourced by agent; crowd makes them and measures. What it prints is
# also printed if all is well.
#
# NUMALOC_STEADY says for how many seconds nothing changes (300), NUMALOC_CHURN how many pods come and go (10000).

crowd() { # ARG...
    NUMALOC_API_SERVER=127.0.0.1:$port NUMALOC_PKI=$pki NUMALOC_AUDIT_LOG=$plane/audit.log tests/kubernetes/crowd "$@" 2>&1 | tee -a "$work/figures"
    return "${PIPESTATUS[0]}"
}

# Statuses and events wait for budgets, which are for pods that change all the time. Here those of 500 and more are to be written soon.
at_once=('status_interval = "10ms"' 'event_interval = "10ms"')
with_budget() { # LINE...: which come before the first section
    end "$agent_pid" && printf '%s\n' "$@" | cat - "$work/default.toml" >"$work/agent.toml" && start_agent && until_true "it is ready" get readyz
}
generous() { cp "$work/agent.toml" "$work/default.toml" && with_budget "${at_once[@]}"; }

steady() { with_budget && sleep 60 && crowd steady "$agent_pid" "${NUMALOC_STEADY:-300}"; }
# numalocd takes 1000 schedules of one client.
churn() {
    with_budget "${at_once[@]}" && crowd clear && crowd churn "$agent_pid" "${NUMALOC_CHURN:-10000}"
}

checks() {
    inline status_annotations_may_be_written_at_once generous
    inline a_node_has_500_pods crowd fill 500
    inline an_annotation_is_a_schedule_soon crowd latency
    inline nothing_is_left_to_say crowd clear
    inline annotated_at_once_they_are_scheduled_soon crowd burst 500
    inline nothing_is_left_to_say_again crowd clear
    inline half_of_them_cost_half_of_that crowd burst 250
    inline a_hundred_repeat_each_minute crowd repeat 100
    inline nothing_is_asked_in_the_steady_state steady
    inline nothing_grows_with_pods_that_come_and_go churn
    cat "$work/figures"
}
