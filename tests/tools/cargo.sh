# shellcheck shell=bash
# Builds programs from crates.io into the cache. Each program has a script that is named after it and sources this file.

# shellcheck source=tests/cache.sh
. "$(dirname "$(readlink -f "$0")")/../cache.sh"

# Builds CRATE at VERSION, with the versions of its own lock file, if it is not in the cache, and prints the path of the program of
# the same name. `cargo_flags` may have more options for cargo.
cargo_flags=()
cargo_program() { # CRATE VERSION [ARGS of the script]...
    local crate=$1 version=$2 dest=$cache/tools/$1-$2
    if [[ ${3:-} == --into ]]; then
        # In its own directory, because a workspace's settings and lock are none of this program's business.
        cd "$4"
        CARGO_TARGET_DIR=$4/target nice -n 10 cargo install --quiet --locked --no-track --root "$4/tree" --version "$version" \
            "${cargo_flags[@]}" "$crate" >&2
        return
    fi
    provide "$dest"
    echo "$dest/bin/$crate"
}
