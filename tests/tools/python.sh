# shellcheck shell=bash
# Makes Python environments in the cache. Each has a script that sources this file.

# shellcheck source=tests/cache.sh
. "$(dirname "$(readlink -f "$0")")/../cache.sh"

# Prints the path of a Python that has these packages. Makes a virtual environment for it first if there is none in the cache.
python_environment() { # NAME "PACKAGE==VERSION..." [ARGS of the script]...
    local base dest packages
    # An environment works only with the interpreter that it was made with, so the interpreter is part of its name.
    base=$(python3 -c 'import sys; print(sys._base_executable or sys.executable)')
    dest=$cache/tools/$1-$(printf '%s %s %s' "$base" "$("$base" --version)" "$2" | sha256sum | cut -c 1-8)
    if [[ ${3:-} == --into ]]; then
        read -ra packages <<<"$2"
        "$base" -m venv "$4/tree"
        "$4/tree/bin/python" -m pip install --quiet --disable-pip-version-check "${packages[@]}" >&2
        # The scripts contain the path of this directory, which is about to be renamed. Nothing uses them.
        find "$4/tree/bin" -type f -delete
        return
    fi
    provide "$dest"
    echo "$dest/bin/python"
}
