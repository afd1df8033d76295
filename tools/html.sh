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

# The modules of Debian's packages are those of its own interpreter. Its nbconvert (6.5) cleans pictures until nothing of them is
# left to see, viewBox and shapes, as if they came from strangers: here that is switched off.
exec /usr/bin/python3 - "$@" <<'END'
import sys
import nbformat
from nbconvert import HTMLExporter

exporter = HTMLExporter()
exporter.register_filter("clean_html", lambda text: text)
for path in sys.argv[1:]:
    notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    nbformat.validate(notebook)
    html, _ = exporter.from_notebook_node(notebook)
    pictures = [output.data["image/svg+xml"] for cell in notebook.cells if cell.cell_type == "code"
                for output in cell.outputs if "image/svg+xml" in output.get("data", {})]
    lost = [picture for picture in pictures if picture not in html]
    if lost:
        sys.exit(f"{path}: {len(lost)} of {len(pictures)} pictures are not in its HTML as they were drawn")
    print(f"{path}: HTML of {len(html)} characters, with {len(pictures)} pictures")
END
