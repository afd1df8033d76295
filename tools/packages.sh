#!/bin/sh
# Installs the packages for the race detector, the tests on real devices and the browser tests, or prints what is missing.
set -eu

missing=""
need() { # command package
	command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}
PATH="$PATH:/usr/sbin:/sbin"
need gcc gcc
need mkfs.ext4 e2fsprogs
need blkid util-linux
need mount mount
need lvm lvm2
need dmsetup dmsetup
need thin_check thin-provisioning-tools
need mkfs.xfs xfsprogs
need mkfs.btrfs btrfs-progs
need busybox busybox-static
[ -e /usr/include/stdlib.h ] || missing="$missing libc6-dev"
if [ "$(id -u)" != 0 ]; then
	echo "not root: skipping the tests on real loop devices and mounts: TestReal… of plugins/nodefs, most of"
	echo "plugins/loop, and the loop cases of cluster, cmd/volsim and examples; 'go test -v' names each with its reason"
fi

# Optional packages, which not every distribution has: User-Mode Linux for machines without device-mapper, and a browser for
# the page of "volsim serve".
extras=""
if [ "$(uname -s) $(uname -m)" = "Linux x86_64" ] && ! command -v linux.uml >/dev/null 2>&1; then
	extras="user-mode-linux"
fi
command -v chromium >/dev/null 2>&1 || extras="$extras chromium"
[ -n "$missing$extras" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
	echo "installing:$missing $extras"
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq
	# shellcheck disable=SC2086
	[ -z "$missing" ] || apt-get install -y -qq --no-install-recommends $missing >/dev/null
	for each in $extras; do
		apt-get install -y -qq --no-install-recommends "$each" >/dev/null 2>&1 ||
			echo "not available: $each; tests that need it are skipped"
	done
else
	echo "missing:$missing $extras (installing requires root and apt-get); tests that need them are skipped"
fi
