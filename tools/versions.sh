#!/bin/sh
# Vets all packages, and tests those that depend most on the Kubernetes libraries, with later versions of these libraries than
# go.mod requires. VERSIONS selects versions, such as "0.37.2".
set -eu

go=${GO:-go}
required=$($go list -m -f '{{.Version}}' k8s.io/api)
packages="./fake/... ./internal/informercache ./internal/remote ./controllers/... ./kubelet/... ./scheduler ./cluster"

for version in ${VERSIONS:-0.36.3 0.37.2}; do
	folder=$(mktemp -d)
	trap 'rm -rf "$folder"' EXIT
	cp go.mod go.sum "$folder"
	modules=$($go list -m -f '{{if not .Indirect}}{{.Path}} {{.Version}}{{end}}' all |
		awk -v required="$required" -v version="$version" '$2 == required { printf "%s@v%s ", $1, version }')
	echo "Kubernetes libraries v$version:"
	# shellcheck disable=SC2086 # lists
	$go get -modfile="$folder/go.mod" $modules 2>/dev/null
	$go vet -modfile="$folder/go.mod" ./...
	# shellcheck disable=SC2086
	$go test -vet=off -short -modfile="$folder/go.mod" $packages
	rm -rf "$folder"
done
