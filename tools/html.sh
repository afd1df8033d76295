#!/bin/sh
# Converts notebooks to HTML with Jupyter's tools, and checks that they are valid and that the HTML contains all pictures.
# The tools are about 35 Debian packages that are used only here.
set -eu

if ! command -v jupyter-nbconvert >/dev/null 2>&1; then
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
		echo "skipping the HTML conversion: jupyter-nbconvert is missing (installing it requires root and apt-get)"
		exit 0
	fi
	echo "installing: jupyter-nbconvert"
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq
	apt-get install -y -qq --no-install-recommends jupyter-nbconvert >/dev/null
fi

# Debian's packages belong to Debian's own interpreter.
exec /usr/bin/python3 - "$@" <<'END'
import sys
import nbformat
from nbconvert import HTMLExporter

exporter = HTMLExporter()
for path in sys.argv[1:]:
    notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    nbformat.validate(notebook)
    html, _ = exporter.from_notebook_node(notebook)
    pictures = ["".join(output.data["image/png"]).strip() for cell in notebook.cells if cell.cell_type == "code"
                for output in cell.outputs if "image/png" in output.get("data", {})]
    if not pictures:
        sys.exit(f"{path}: no picture")
    lost = [picture for picture in pictures if picture not in html]
    if lost:
        sys.exit(f"{path}: {len(lost)} of {len(pictures)} pictures are missing or changed in its HTML")
    print(f"{path}: {len(html)} characters of HTML with {len(pictures)} pictures")
END
