package main

import (
	"strings"
	"testing"
)

func TestWrap(t *testing.T) {
	t.Parallel()
	long := "/" + strings.Repeat("x", 40)
	for _, tt := range []struct {
		name, text    string
		width, indent int
		want          string
	}{
		{"short", "a b c", 40, 2, "a b c"},
		{"between words", "the quick brown fox jumps over the lazy dog", 30, 0, "the quick brown fox jumps over\nthe lazy dog"},
		{"exact", strings.Repeat("x", 30) + " y", 30, 0, strings.Repeat("x", 30) + "\ny"},
		{"hanging indent", "head: the quick brown fox jumps over the lazy dog", 36, 6, "head: the quick brown fox jumps over\n      the lazy dog"},
		{"after slashes", "path=/one" + long + "/two" + long, 60, 4, "path=/one/" + strings.Repeat("x", 40) + "/two/\n    " + strings.Repeat("x", 40)},
		{"unbreakable", "a " + strings.Repeat("x", 50) + " b", 40, 2, "a " + strings.Repeat("x", 50) + "\n  b"},
		{"narrow terminal", "head: some words that are here", 5, 6, "head: some words that are here"},
		{"not ASCII", strings.Repeat("ä", 26) + " öö ü", 30, 0, strings.Repeat("ä", 26) + " öö\nü"},
		{"empty", "", 40, 2, ""},
	} {
		if got := wrap(tt.text, tt.width, tt.indent); got != tt.want {
			t.Errorf("%s:\n%s\nwant:\n%s", tt.name, got, tt.want)
		}
	}
}
