# Every target sets up what it needs first; see setup.sh.
SHELL := /bin/bash
export PATH := $(PATH):$(HOME)/.cargo/bin

.PHONY: setup demo lint unit test bench

setup:
	@./setup.sh

# A Redis whose data is half on the wrong node gets it home while it serves.
demo: setup
	@demo/demo.sh

lint: setup
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets --all-features -- -D warnings

# Unit, property, snapshot and command-line tests.
unit: setup
	cargo test --locked --workspace

test: setup
	@tests/run

bench: setup
	@benches/run all
