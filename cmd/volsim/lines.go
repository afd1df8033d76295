package main

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// lineBytesMax is how much of a text is printed in a line of output, and in an attribute of a log
// line.
const lineBytesMax = 8 << 10

// shorten returns a text of at most lineBytesMax bytes, and how many more it has.
func shorten(text string) string {
	if len(text) <= lineBytesMax {
		return text
	}
	end := lineBytesMax
	for end > lineBytesMax-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return fmt.Sprintf("%s… (%d bytes more)", text[:end], len(text)-end)
}

// oneLine returns a shortened text in which line breaks and other control characters except tabs
// are escaped, so that they do not look like another line.
func oneLine(text string) string {
	text = shorten(text)
	if !strings.ContainsFunc(text, breaksLine) {
		return text
	}
	var all strings.Builder
	for _, r := range text {
		if breaksLine(r) {
			quoted := strconv.QuoteRune(r)
			all.WriteString(quoted[1 : len(quoted)-1])
		} else {
			all.WriteRune(r)
		}
	}
	return all.String()
}

func breaksLine(r rune) bool {
	return r != '\t' && unicode.IsControl(r) || r == '\u2028' || r == '\u2029'
}

// shortenAttribute shortens the texts and errors of a log line. The handlers escape line breaks.
func shortenAttribute(_ []string, attribute slog.Attr) slog.Attr {
	switch value := attribute.Value.Any().(type) {
	case string:
		attribute.Value = slog.StringValue(shorten(value))
	case error:
		attribute.Value = slog.StringValue(shorten(value.Error()))
	}
	return attribute
}
