#!/bin/sh
# Builds the image with the buildah of a Debian root file system, without a registry:
#
#   unshare --mount --pid --fork --kill-child --mount-proc=ROOT/proc buildah.sh ROOT BASE SOURCE TAG OUT
#
# ROOT is that file system, BASE a tar of what stands for the image in the FROM lines of
# deploy/Dockerfile, SOURCE this repository, OUT an empty folder that gets image.tar.
# Mounts end with the namespace; layers stay in ROOT and make the next build short.
set -eu
root=$1 base=$2 source=$3 tag=$4 out=$5

mount --make-rprivate /
# buildah changes the propagation of its root, so that must be a mount.
mount --rbind "$root" "$root"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
for folder in source out; do mkdir -p "$root/build/$folder"; done
mount --bind "$source" "$root/build/source"
mount --bind "$out" "$root/build/out"
cp "$base" "$root/build/base.tar"
cp /etc/resolv.conf "$root/etc/resolv.conf"

in_root() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"; }

from=$(sed -n 's/^FROM \([^ ]*:[^ ]*\).*/\1/p' "$source/deploy/Dockerfile" | sort -u)
if ! in_root buildah inspect --type image "docker.io/library/$from" >/dev/null 2>&1; then
    echo "importing a Debian with Python in place of $from"
    printf 'FROM scratch\nADD base.tar /\n' >"$root/build/Base"
    in_root buildah bud --isolation chroot --tag "docker.io/library/$from" -f /build/Base /build
fi
rm "$root/build/base.tar"
set --
if [ -f "$out/pip.conf" ]; then set -- --volume /build/out/pip.conf:/etc/pip.conf:ro; fi
if [ -f "$out/authorities.crt" ]; then
    set -- "$@" --volume /build/out/authorities.crt:/etc/ssl/certs/ca-certificates.crt:ro
fi
in_root buildah bud --layers --pull-never --isolation chroot --network host "$@" \
    --ignorefile /build/source/deploy/Dockerfile.dockerignore \
    --tag "$tag" -f /build/source/deploy/Dockerfile /build/source
in_root buildah push "$tag" "docker-archive:/build/out/image.tar:$tag"
# Layers of earlier builds make the next one short, and add up.
if [ "$(du -sm "$root/var/lib/containers" | cut -f 1)" -gt 6000 ]; then
    in_root buildah rmi --all --force >/dev/null
fi
