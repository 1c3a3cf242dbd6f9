# shellcheck shell=bash disable=SC2154  # state is set by who sources this
# Packages of Debian's suites, unpacked into the cache and never installed: sourced by
# kernel, emulator, debian-root, arm64 and scripts of ../tools. The mirror and its keyring are those of
# this machine's own apt sources; apt's state is private, so that the machine's is neither read
# nor changed.

# Whose packages are meant. A script that wants another one sets it after this file.
architecture=amd64

# shellcheck source=tests/cache.sh
. "$(dirname "${BASH_SOURCE[0]}")/../cache.sh"

# Root of this machine, or of a namespace where newuidmap (package uidmap) gives a user the ids of a whole system.
as_root() { if ((EUID == 0)); then "$@"; else unshare --map-root-user --map-auto -- "$@"; fi; }

codename() {
    sed -nE 's/^VERSION_CODENAME="?([a-z]+)"?$/\1/p' /etc/os-release
}

# "URI KEYRING" of the Debian archive in the apt sources, of either format. KEYRING is "-"
# where the source names none: apt's default keys then apply.
archive() {
    local etc
    etc=$(apt-config shell dir Dir::Etc/d) && eval "$etc"
    # shellcheck disable=SC2154  # $dir comes from apt-config
    {
        cat "$dir"/sources.list.d/*.sources 2>/dev/null || true
        # A one-line source, rewritten as a stanza.
        cat "$dir"/sources.list "$dir"/sources.list.d/*.list 2>/dev/null |
            sed -nE 's/^deb +(\[([^]]*)\] *)?([^ ]+) +([^ ]+) +(.*)$/\n\2\nURIs: \3\nSuites: \4\nComponents: \5\n/p' |
            sed -E 's/^.*signed-by=([^ ]+).*$/Signed-By: \1/' || true
    } | grep -v '^#' | awk -v codename="$(codename)" '
        function flush() {
            if (uri ~ /\/debian\/?$/ && (" " suites " ") ~ (" " codename " ") && (" " components " ") ~ " main ") {
                print uri, (key ~ /^\// ? key : "-")
                found = 1
                exit
            }
            uri = suites = components = key = ""
        }
        /^[ \t]*$/ { flush(); next }
        { field = tolower($1); value = $0; sub(/^[^ \t]*[ \t]*/, "", value) }
        field == "uris:" { split(value, uris, " "); uri = uris[1] }
        field == "suites:" { suites = value }
        field == "components:" { components = value }
        field == "signed-by:" { key = value }
        END { if (!found) flush() }'
}

apt() { # TOOL ARGS...: an apt tool on the state in $state
    local tool=$1
    shift
    "$tool" -q -o APT::Architecture="$architecture" -o APT::Architectures="$architecture" \
        -o Dir::State="$state" -o Dir::State::lists="$state/lists" -o Dir::State::status="$state/status" \
        -o Dir::Cache="$state" -o Dir::Etc::sourcelist="$state/debian.sources" -o Dir::Etc::sourceparts=/dev/null \
        -o Acquire::Retries=3 -o APT::Sandbox::User="$(id -un)" -o APT::Update::Post-Invoke::="" "$@"
}

retry() { # a mirror that is being updated answers with hash mismatches for a while
    local attempt
    for attempt in 1 2 3; do
        "$@" && return
        echo "debian: attempt $attempt failed: $*" >&2
        sleep $((attempt * 5))
    done
    return 1
}

# Puts a system of Debian together, with packages of SUITEs, the first of which is its release. One of another architecture is made by an
# emulator, which takes minutes.
bootstrap() { # SUITE[,SUITE] OUTPUT ARG...: ARGs are those of mmdebstrap
    local uri keyring signed='' suite suites sources=() through=()
    command -v mmdebstrap >/dev/null || { echo "debian: no mmdebstrap; setup.sh installs it" >&2 && return 1; }
    read -r uri keyring < <(archive) || { echo "debian: the apt sources name no Debian archive" >&2 && return 1; }
    [[ $keyring == - ]] || signed="[signed-by=$keyring] "
    IFS=, read -r -a suites <<<"$1"
    for suite in "${suites[@]}"; do sources+=("deb ${signed}$uri $suite main"); done
    if [[ $architecture != amd64 ]]; then
        through=("$(dirname "${BASH_SOURCE[0]}")/emulated") && set -- "$1" "$2" "--architectures=$architecture" --mode=root --skip=check/qemu "${@:3}"
    fi
    LC_ALL=C.UTF-8 LANG=C.UTF-8 retry "${through[@]}" mmdebstrap --quiet --aptopt='Acquire::Retries "3"' "${@:3}" \
        "${suites[0]}" "$2" "${sources[@]}" >&2
}

open_suite() { # SUITE: reads its package lists
    local uri keyring
    read -r uri keyring < <(archive) || {
        echo "debian: the apt sources name no Debian archive" >&2
        return 1
    }
    mkdir -p "$state"/{lists,archives}/partial "$state/debs"
    : >"$state/status"
    {
        printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\nArchitectures: %s\nTargets: Packages\n' \
            "$uri" "$1" "$architecture"
        [[ $keyring == - ]] || printf 'Signed-By: %s\n' "$keyring"
    } >"$state/debian.sources"
    retry apt apt-get update --error-on=any >&2
}

fetch() { # PACKAGE...: downloads into $state/debs
    (cd "$state/debs" && retry apt apt-get download "$@" >&2)
}

programs() { # PACKAGE SUITE PROGRAM...: puts programs of a package into $state/tree
    local name=$1 suite=$2 program
    rm -rf "$state/debs" "$state/unpacked"
    open_suite "$suite"
    fetch "$name"
    dpkg-deb -x "$state"/debs/"$name"_*.deb "$state/unpacked"
    mkdir -p "$state/tree"
    for program in "${@:3}"; do
        cp "$(find "$state/unpacked" -type f -path "*/*bin/$program" | head -n 1)" "$state/tree/$program"
    done
}
