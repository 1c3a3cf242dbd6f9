# shellcheck shell=bash disable=SC2034,SC2154  # variables cross between this and who sources it
# What tests download and build is kept in one directory, where it may be deleted at any time.

cache=${NUMALOC_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/numaloc}

# Makes DIRECTORY by calling this script again with ARGS and "--into STATE"; it leaves the
# directory as STATE/tree. A process of its own, because errexit is off in whatever an "if"
# calls. Whoever comes second waits, and an interrupted run leaves nothing that looks whole.
provide() { # DIRECTORY [ARG]...
    local directory=$1 lock made status=0
    [[ ! -e $directory ]] || return 0
    mkdir -p "$(dirname "$directory")"
    exec {lock}>"$directory.lock"
    flock "$lock"
    if [[ ! -e $directory ]]; then
        made=$(mktemp -d "$directory.XXXXXX")
        { "$0" "${@:2}" --into "$made" && mv -T "$made/tree" "$directory"; } || status=$?
        rm -rf "$made"
    fi
    exec {lock}>&-
    return "$status"
}
