package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

// A notebook is a Jupyter notebook of format 4. Unused fields are preserved.
type notebook struct {
	doc   map[string]any
	cells []*cell
}

// A cell is one cell of a notebook.
type cell struct {
	doc map[string]any
}

// mayFailTag is Jupyter's tag for a cell that is expected to fail.
const mayFailTag = "raises-exception"

// newNotebook returns an empty notebook for GoNB.
func newNotebook() *notebook {
	return &notebook{doc: map[string]any{
		"metadata": map[string]any{
			"kernelspec":    map[string]any{"display_name": "Go (gonb)", "language": "go", "name": "gonb"},
			"language_info": map[string]any{"name": "go", "file_extension": ".go", "mimetype": "text/x-go"},
		},
		"nbformat":       json.Number("4"),
		"nbformat_minor": json.Number("5"),
	}}
}

// add appends a cell. The ID names its content, so it stays stable when other cells change.
func (n *notebook) add(kind, id, source string) {
	doc := map[string]any{"cell_type": kind, "id": id, "metadata": map[string]any{}, "source": splitLines(source)}
	if kind == "code" {
		doc["execution_count"], doc["outputs"] = nil, []any{}
	}
	n.cells = append(n.cells, &cell{doc: doc})
}

func readNotebook(path string) (*notebook, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	n := &notebook{}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&n.doc); err != nil {
		return nil, fmt.Errorf("parse notebook %s: %w", path, err)
	}
	cells, ok := n.doc["cells"].([]any)
	if !ok || fmt.Sprint(n.doc["nbformat"]) != "4" {
		return nil, fmt.Errorf("%s: unsupported notebook format: want format 4, save it with a newer Jupyter", path)
	}
	for i, c := range cells {
		doc, ok := c.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s: cell %d is not an object", path, i+1)
		}
		n.cells = append(n.cells, &cell{doc: doc})
	}
	return n, nil
}

// encode returns the notebook in Jupyter's layout: sorted keys, one space per level, minimal
// escaping.
func (n *notebook) encode() ([]byte, error) {
	cells := make([]any, len(n.cells))
	for i, c := range n.cells {
		cells[i] = c.doc
	}
	n.doc["cells"] = cells
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(n.doc); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// withoutOutputs returns a copy without outputs.
func (n *notebook) withoutOutputs() *notebook {
	bare := &notebook{doc: n.doc}
	for _, c := range n.cells {
		doc := map[string]any{}
		for k, v := range c.doc {
			doc[k] = v
		}
		if c.isCode() {
			doc["execution_count"], doc["outputs"] = nil, []any{}
		}
		bare.cells = append(bare.cells, &cell{doc: doc})
	}
	return bare
}

// hasOutputs reports whether the cells have outputs of a run.
func (n *notebook) hasOutputs() bool {
	return slices.ContainsFunc(n.cells, func(c *cell) bool { return c.isCode() && c.doc["execution_count"] != nil })
}

func (c *cell) isCode() bool   { return c.doc["cell_type"] == "code" }
func (c *cell) source() string { return joinLines(c.doc["source"]) }

// name returns the name of the cell in messages: its ID or its index.
func (c *cell) name(index int) string {
	if id, ok := c.doc["id"].(string); ok {
		return id
	}
	return fmt.Sprintf("%d", index+1)
}

// mayFail reports whether the cell is expected to fail.
func (c *cell) mayFail() bool {
	metadata, _ := c.doc["metadata"].(map[string]any)
	tags, _ := metadata["tags"].([]any)
	return slices.Contains(tags, any(mayFailTag))
}

// joinLines returns a text that is stored as a string or as a list of lines.
func joinLines(text any) string {
	switch text := text.(type) {
	case string:
		return text
	case []any:
		var b strings.Builder
		for _, line := range text {
			fmt.Fprint(&b, line)
		}
		return b.String()
	case []string:
		return strings.Join(text, "")
	}
	return ""
}

// splitLines returns a text as a list of lines with newlines, as notebooks store it.
func splitLines(text string) []any {
	lines := []any{}
	for line := range strings.Lines(text) {
		lines = append(lines, line)
	}
	return lines
}

// streamOutput returns the output for printed text.
func streamOutput(name, text string) map[string]any {
	return map[string]any{"output_type": "stream", "name": name, "text": splitLines(text)}
}

// errorOutput returns the output of a cell that does not compile.
func errorOutput(text string) map[string]any {
	lines := []any{}
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimSuffix(line, "\n"))
	}
	return map[string]any{
		"output_type": "error", "ename": "ERROR",
		"evalue": strings.TrimSuffix(text, "\n"), "traceback": lines,
	}
}
