# shellcheck shell=bash
# Writes images as archives that `ctr images import` takes (OCI image layout 1.0): sourced by images and packaging/image. They are for
# $architecture.

blob() { # FILE: copies it into $layout, and prints its digest and size
    local digest
    digest=$(sha256sum "$1" | cut -d ' ' -f 1)
    cp --reflink=auto "$1" "$layout/blobs/sha256/$digest"
    printf '"digest": "sha256:%s", "size": %d' "$digest" "$(stat -c %s "$1")"
}

# CONFIG is a JSON object that says how the image runs. The layers are archives of tar, the lowest one first.
oci() { # ARCHIVE NAME CONFIG LAYER...
    local archive=$1 name=$2 how=$3 layout layer described digest layers='' diffs='' config manifest
    shift 3
    layout=$(mktemp -d)
    mkdir -p "$layout/blobs/sha256"
    for layer in "$@"; do
        described=$(blob "$layer")
        digest=$(sha256sum "$layer" | cut -d ' ' -f 1)
        diffs+="${diffs:+, }\"sha256:$digest\""
        layers+="${layers:+, }{\"mediaType\": \"application/vnd.oci.image.layer.v1.tar\", $described}"
    done
    cat >"$layout/new" <<EOT
{"architecture": "${architecture:-amd64}", "os": "linux", "rootfs": {"type": "layers", "diff_ids": [$diffs]},
 "config": $how}
EOT
    config=$(blob "$layout/new")
    cat >"$layout/new" <<EOT
{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
 "config": {"mediaType": "application/vnd.oci.image.config.v1+json", $config},
 "layers": [$layers]}
EOT
    manifest=$(blob "$layout/new")
    cat >"$layout/index.json" <<EOT
{"schemaVersion": 2, "manifests": [{"mediaType": "application/vnd.oci.image.manifest.v1+json", $manifest,
  "platform": {"architecture": "${architecture:-amd64}", "os": "linux"},
  "annotations": {"io.containerd.image.name": "$name", "org.opencontainers.image.ref.name": "${name##*:}"}}]}
EOT
    echo '{"imageLayoutVersion": "1.0.0"}' >"$layout/oci-layout"
    tar -C "$layout" -cf "$archive" oci-layout index.json blobs
    rm -rf "$layout"
}

# Nothing of a layer depends on when and by whom it was made.
layer() { # ROOT ARCHIVE
    tar -C "$1" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf "$2" .
}
