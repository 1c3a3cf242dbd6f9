# shellcheck shell=bash disable=SC2154  # who sources this says what its suite is called
# Results of checks that are not Rust tests, printed as Rust's tests print theirs, so that tests/count counts them. The script that sources this sets
# `suite`, which comes before each name.

passed=0 failed=0 ignored=0

result() { # NAME STATUS OUTPUT
    if (($2 == 0)); then
        echo "test $suite::$1 ... ok" && ((++passed))
    else
        printf 'test %s::%s ... FAILED\n%s\n' "$suite" "$1" "$3" && ((++failed))
    fi
}

check() { # NAME COMMAND...: prints what the command says if it fails
    local output status=0
    output=$("${@:2}" 2>&1) || status=$?
    result "$1" "$status" "$output"
}

skip() { echo "test $suite::$1 ... ignored, $2" && ((++ignored)); } # NAME WHY

# 77 means that this machine does not allow it, and the last line says why.
may_skip() { # NAME COMMAND...
    local output status=0
    output=$("${@:2}" 2>&1) || status=$?
    if ((status == 77)); then skip "$1" "$(tail -n 1 <<<"$output")"; else result "$1" "$status" "$output"; fi
}

finish() { # the last line; fails if a check has failed
    local word=ok
    ((failed == 0)) || word=FAILED
    printf 'test result: %s. %d passed; %d failed; %d ignored; 0 measured\n' "$word" "$passed" "$failed" "$ignored"
    ((failed == 0))
}
