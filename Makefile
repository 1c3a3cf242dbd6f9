# Every target sets up what it needs first; see setup.sh.
SHELL := /bin/bash
export PATH := $(PATH):$(HOME)/.cargo/bin

.PHONY: setup demo lint unit test test-all packages apt-directory book fuzz release bench

setup:
	@./setup.sh

# A Redis whose data is half on the wrong node gets it home while it serves.
demo: setup
	@demo/demo.sh

lint: setup
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets --test suite --all-features -- -D warnings

# Unit, property, snapshot and command-line tests.
unit: setup
	cargo test --locked --workspace

# What CI runs. tests/README.md says what runs where.
test: setup
	@tests/run

# Everything: hours. OPTIONS=--resume continues a run on the same tree.
test-all:
	@./setup.sh --all
	@tests/run --all $(OPTIONS)

# Packages of Debian and of rpm, in target/packages. ARCH="amd64 arm64" for both architectures; without it, amd64.
packages: setup
	@packaging/build $(addprefix --arch ,$(ARCH))

# These packages as a directory that apt installs from, in target/apt. KEY=ID signs it with a key that gpg has.
apt-directory: setup
	@packaging/apt-directory $(if $(KEY),--key "$(KEY)")

# All pages as a book, in target/book.
book: setup
	@tests/docs/check --book

# An hour for each target, as many at the same time as there are CPUs; TARGET=proto for one.
fuzz: setup
	@fuzz/run 3600 $(TARGET)

# VERSION=0.1.0: packages in target/packages, and a commit with a tag. OPTIONS=--dry-run tries all but the last two.
release:
	@./setup.sh --all
	@packaging/release $(OPTIONS) "$(VERSION)"

bench: setup
	@benches/run all
