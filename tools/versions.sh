#!/bin/sh
# Vets all packages, and tests those that depend most on the Kubernetes libraries, with later versions of these libraries than
# go.mod requires; and the modules ctrlruntime and test/kubebuilder with the controller-runtime of each. VERSIONS selects
# versions, such as "0.37.2".
set -eu

go=${GO:-go}
required=$($go list -m -f '{{.Version}}' k8s.io/api)
packages="./fake ./fake/apiserver ./fake/audit ./fake/crd ./fake/internal/... ./fake/reactors ./internal/informercache ./internal/remote ./controllers/... ./kubelet/... ./scheduler ./cluster ./envtest"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# require VERSION [MODULE@VERSION] writes a go.mod of the present module that requires a version of the Kubernetes libraries.
require() {
	cp go.mod go.sum "$folder"
	modules=$($go list -m -f '{{if not .Main}}{{.Path}} {{.Version}}{{end}}' all |
		awk -v required="$required" -v version="$1" '$2 == required { printf "%s@v%s ", $1, version }')
	# shellcheck disable=SC2086 # a list
	$go get -modfile="$folder/go.mod" $modules ${2:-} 2>"$folder/get.log" || { cat "$folder/get.log" >&2; return 1; }
}

for version in ${VERSIONS:-0.36.3 0.37.2}; do
	# The typed clients are made with the version of go.mod; later ones have further kinds.
	clients=TestTypedClientsAreUpToDate
	skip="^($clients)\$"
	case $version in
	0.36.*) runtime=sigs.k8s.io/controller-runtime@v0.24.1 ;;
	0.37.*)
		runtime=sigs.k8s.io/controller-runtime@v0.25.2
		# They compare with recordings of 1.36: the types of 1.37 have further fields, and other descriptions.
		skip="^(TestKindsMatchTheRealServer|TestTablesAreThoseOfARealServer|$clients)\$"
		;;
	*) echo "v$version: no controller-runtime is known for it" >&2; exit 2 ;;
	esac
	echo "Kubernetes libraries v$version:"
	require "$version"
	$go vet -modfile="$folder/go.mod" ./...
	# shellcheck disable=SC2086 # a list
	$go test -vet=off -timeout 30m -short -skip "$skip" -modfile="$folder/go.mod" $packages
	for module in ctrlruntime test/kubebuilder; do
		(cd $module && require "$version" "$runtime" && $go vet -mod=mod -modfile="$folder/go.mod" ./... &&
			$go test -mod=mod -vet=off -timeout 30m -modfile="$folder/go.mod" ./...)
	done
done
