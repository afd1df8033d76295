#!/bin/sh
# Opens notebooks with Jupyter's own tools: checks that they are valid, makes HTML of them, and looks whether all pictures are in it.
# The tools are Debian's, about 35 packages that nothing else here needs.
set -eu

if ! command -v jupyter-nbconvert >/dev/null 2>&1; then
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
		echo "missing: jupyter-nbconvert (not installed: that takes root and apt-get); left out is making HTML of the notebooks"
		exit 0
	fi
	echo "installing: jupyter-nbconvert"
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq
	apt-get install -y -qq --no-install-recommends jupyter-nbconvert >/dev/null
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# The modules of Debian's packages are those of its own interpreter.
/usr/bin/python3 -c 'import sys, nbformat
for path in sys.argv[1:]:
    nbformat.validate(nbformat.read(path, as_version=nbformat.NO_CONVERT))' "$@"
jupyter-nbconvert --log-level=WARN --to html --output-dir "$folder" "$@"
for notebook in "$@"; do
	html="$folder/$(basename "$notebook" .ipynb).html"
	want=$(grep -c '^ *"image/svg+xml": ' "$notebook" || true)
	got=$(grep -o '<svg' "$html" | wc -l)
	if [ "$got" -lt "$want" ]; then
		echo "$notebook: $want pictures, and $got in its HTML" >&2
		exit 1
	fi
	echo "$notebook: HTML of $(wc -c <"$html") bytes, pictures: $want"
done
