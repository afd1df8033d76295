#!/bin/sh
# Runs the fuzz targets of all modules in turn: sh tools/fuzz.sh TIME [PATTERN]. Lists them: sh tools/fuzz.sh --list.
#
# "go test -fuzz" instruments every package that a test imports. For the types and clients of Kubernetes that takes more
# than half an hour. So this script builds the test itself and instruments only the packages of this repository. The
# fuzzing is still guided by their coverage. Interesting inputs are kept in the cache of "go test -fuzz", failing ones
# in the testdata folder of the package. An input is reduced for at most a second, because the workers wait meanwhile.
set -eu

go=${GO:-go}
ours=github.com/volsim/volsim

# targets prints one line for each target: its folder and its name.
targets() {
	grep -rE --include='*_test.go' '^func Fuzz[A-Z0-9_]' . | sed -nE 's,^(.*)/[^/]*:func (Fuzz[A-Za-z0-9_]*)\(.*,\1 \2,p' | sort
}

if [ "$1" = --list ]; then
	targets
	exit
fi
time=$1 pattern=${2:-.}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM
targets | grep -E -- "$pattern" >"$folder/targets" || {
	echo "no fuzz target matches $pattern; have:" >&2
	targets >&2
	exit 1
}
built=
status=0
while read -r at name <&3; do
	package=$(cd "$at" && "$go" list .)
	if [ "$at" != "$built" ]; then
		echo "building $package"
		(cd "$at" && "$go" test -c -vet=off -gcflags="$ours/...=-d=libfuzzer" -o "$folder/fuzz.test" .)
		built=$at
	fi
	echo "$package $name"
	(cd "$at" && "$folder/fuzz.test" -test.run='^$' -test.fuzz="^$name\$" -test.fuzztime="$time" -test.fuzzminimizetime=1s \
		-test.fuzzcachedir="$("$go" env GOCACHE)/fuzz/$package") || status=1
done 3<"$folder/targets"
exit $status
