package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// difference returns a text comparing the outputs of two notebooks with the same cells, or "" if
// they are equal.
func difference(committed, now *notebook) string {
	var b strings.Builder
	for i, c := range now.cells {
		if i >= len(committed.cells) {
			break
		}
		before, after := outputLines(committed.cells[i]), outputLines(c)
		if slices.Equal(before, after) {
			continue
		}
		fmt.Fprintf(&b, "cell %s:\n", c.name(i))
		writeDiff(&b, before, after)
	}
	return b.String()
}

// outputLines returns a cell's outputs as readable lines.
func outputLines(c *cell) []string {
	if !c.isCode() {
		return splitText(c.source())
	}
	var lines []string
	outputs, _ := c.doc["outputs"].([]any)
	for _, o := range outputs {
		output, _ := o.(map[string]any)
		switch output["output_type"] {
		case "stream":
			lines = append(lines, fmt.Sprintf("[%v]", output["name"]))
			lines = append(lines, splitText(joinLines(output["text"]))...)
		case "error":
			lines = append(lines, "[error]")
			lines = append(lines, splitText(fmt.Sprint(output["evalue"]))...)
		default:
			data, _ := output["data"].(map[string]any)
			for _, mime := range sortedKeys(data) {
				lines = append(lines, fmt.Sprintf("[%s]", mime))
				text := joinLines(data[mime])
				if text == "" {
					raw, _ := json.Marshal(data[mime])
					text = string(raw)
				}
				lines = append(lines, splitText(text)...)
			}
		}
	}
	return lines
}

func sortedKeys(m map[string]any) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func splitText(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

const (
	diffLines   = 40      // maximum lines printed per cell
	diffWidth   = 160     // maximum bytes printed per line
	diffContext = 2       // unchanged lines around a change
	diffCells   = 4 << 20 // maximum size of the comparison table
)

// writeDiff writes a line diff: - for the stored text, + for the current text.
func writeDiff(b *strings.Builder, before, after []string) {
	var printed int
	printLine := func(mark, line string) {
		if printed++; printed > diffLines {
			return
		}
		if len(line) > diffWidth {
			line = strings.ToValidUTF8(line[:diffWidth], "") + "…"
		}
		fmt.Fprintf(b, "  %s %s\n", mark, line)
	}
	edits := shortestEdit(before, after)
	for i, e := range edits {
		near := slices.ContainsFunc(edits[max(0, i-diffContext):min(len(edits), i+diffContext+1)],
			func(e change) bool { return e.mark != " " })
		if near {
			printLine(e.mark, e.line)
		}
	}
	if printed > diffLines {
		fmt.Fprintf(b, "  … and %d more lines\n", printed-diffLines)
	}
}

// A change is an unchanged (" "), removed ("-") or added ("+") line.
type change struct{ mark, line string }

// shortestEdit returns the shortest edit script from a to b.
func shortestEdit(a, b []string) []change {
	var head, tail []change
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		head, a, b = append(head, change{" ", a[0]}), a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		tail, a, b = append(tail, change{" ", a[len(a)-1]}), a[:len(a)-1], b[:len(b)-1]
	}
	slices.Reverse(tail)
	return slices.Concat(head, editMiddle(a, b), tail)
}

// editMiddle computes a longest common subsequence. Texts that are too long for that are replaced
// as a whole.
func editMiddle(a, b []string) []change {
	var changes []change
	i, j := 0, 0
	if len(a)*len(b) <= diffCells {
		common := make([][]int32, len(a)+1) // lengths for the suffixes a[i:] and b[j:]
		for i := range common {
			common[i] = make([]int32, len(b)+1)
		}
		for i := len(a) - 1; i >= 0; i-- {
			for j := len(b) - 1; j >= 0; j-- {
				common[i][j] = max(common[i+1][j], common[i][j+1])
				if a[i] == b[j] {
					common[i][j] = common[i+1][j+1] + 1
				}
			}
		}
		for i < len(a) && j < len(b) {
			switch {
			case a[i] == b[j]:
				changes = append(changes, change{" ", a[i]})
				i, j = i+1, j+1
			case common[i+1][j] >= common[i][j+1]:
				changes = append(changes, change{"-", a[i]})
				i++
			default:
				changes = append(changes, change{"+", b[j]})
				j++
			}
		}
	}
	for _, line := range a[i:] {
		changes = append(changes, change{"-", line})
	}
	for _, line := range b[j:] {
		changes = append(changes, change{"+", line})
	}
	return changes
}

// sourceDifference returns a text comparing the cells of two notebooks without outputs.
func sourceDifference(committed, made *notebook) string {
	sources := func(n *notebook) (lines []string) {
		for i, c := range n.cells {
			lines = append(lines, fmt.Sprintf("[%s, %v]", c.name(i), c.doc["cell_type"]))
			lines = append(lines, splitText(c.source())...)
		}
		return lines
	}
	var b strings.Builder
	writeDiff(&b, sources(committed), sources(made))
	return b.String()
}
