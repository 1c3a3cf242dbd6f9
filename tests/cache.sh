# shellcheck shell=bash disable=SC2034,SC2154  # variables cross between this and who sources it
# Everything that tests download and build is kept in one directory. It may be deleted at any time.

cache=${NUMALOC_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/numaloc}

# Makes DIRECTORY: calls the calling script again with ARGS and "--into STATE", and that call leaves the directory as STATE/tree.
# The call is a process of its own, because errexit has no effect in what an "if" calls. A second caller waits for the first. An
# interrupted run leaves nothing that looks complete.
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
