# shellcheck shell=bash
# Builds Go programs into the cache. Each program has a script that is named after it and sources this file.

# shellcheck source=tests/cache.sh
. "$(dirname "$(readlink -f "$0")")/../cache.sh"

# Builds PACKAGE at VERSION if it is not in the cache, and prints the path of the program. The program is static, so that it runs
# in the emulated machine without libraries.
go_program() { # PACKAGE VERSION [ARGS of the script]...
    local package=$1 version=$2 name=${1##*/} dest=$cache/tools/${1##*/}-$2
    if [[ ${3:-} == --into ]]; then
        local go
        go=$("$(dirname "$(readlink -f "$0")")/go")
        GOBIN=$4/tree CGO_ENABLED=0 GOFLAGS=-trimpath "$go" install -ldflags='-s -w' "$package@$version" >&2
        return
    fi
    provide "$dest"
    echo "$dest/$name"
}
