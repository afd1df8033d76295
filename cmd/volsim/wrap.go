package main

import (
	"io"
	"strings"
	"unicode/utf8"

	"github.com/volsim/volsim/internal/cli"
)

// Widths of text, in columns.
const (
	defaultWidth = 100 // where the output is not a terminal
	textWidthMin = 30  // of the text next to an indent
)

// textWidth returns the width to which text is wrapped.
func textWidth(out io.Writer) int {
	if columns, terminal := cli.Width(out); terminal && columns > 0 {
		return columns
	}
	return defaultWidth
}

// wrap breaks a line between words, so that no line is longer than width. Lines after the first are
// indented. A word that is longer than a line, such as a path, is broken after slashes.
func wrap(text string, width, indent int) string {
	width = max(width, indent+textWidthMin)
	var b strings.Builder
	column, empty := 0, true // the current line is empty
	for _, word := range strings.SplitAfter(text, " ") {
		pieces := []string{word}
		if length(word) > width-indent {
			pieces = strings.SplitAfter(word, "/")
		}
		for _, piece := range pieces {
			if !empty && column > indent && column+length(piece) > width {
				trimmed := strings.TrimRight(b.String(), " ")
				b.Reset()
				b.WriteString(trimmed + "\n" + strings.Repeat(" ", indent))
				column, empty = indent, true
			}
			b.WriteString(piece)
			column += utf8.RuneCountInString(piece)
			empty = empty && strings.TrimSpace(piece) == ""
		}
	}
	return b.String()
}

// length returns the length of a word without the space after it.
func length(word string) int { return utf8.RuneCountInString(strings.TrimRight(word, " ")) }
