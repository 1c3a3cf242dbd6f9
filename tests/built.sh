# shellcheck shell=bash
# Builds the suites and the programs that they call: sourced by vm/suite and containerd/run, with the top of the repository as the
# current directory. The whole workspace is built, as `cargo test` does it: then the features that other packages and tests want of a
# dependency are the same, and nothing is built twice. With built_for=arm64 they are
# programs of arm64, without the agent and the plugin, which the suites do not run there.

cargo=(cargo) of=(--workspace)
[[ ${built_for-} != arm64 ]] || cargo=(tests/vm/arm64 cargo) of=(-p numaloc-tests -p numalocctl -p numalocd)
built=$("${cargo[@]}" test --quiet --no-run --message-format json-render-diagnostics "${of[@]}" \
    --test suite --test program --test cli)

executable() { # NAME: the newest build of it
    grep -oE "\"executable\":\"[^\"]*/$1(-[0-9a-f]+)?\"" <<<"$built" | tail -n 1 | cut -d '"' -f 4
}
