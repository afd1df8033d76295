package sigapps

import (
	"os"
	"strings"
	"testing"
)

const listFile = "testdata/tests.txt"

// Verdicts.
const (
	pass          = "pass"
	passAnnotated = "annotated" // it passes if annotations stand for what its containers do
	no            = "no"        // it cannot pass, or not yet; the heading of the paragraph says why
)

// An entry says whether a test passes.
type entry struct{ verdict, name string }

// readList returns the listed tests. A line has a verdict, a tab and a name; "# " begins the heading
// of a paragraph.
func readList(t *testing.T) []entry {
	data, err := os.ReadFile(listFile)
	if err != nil {
		t.Fatal(err)
	}
	var list []entry
	for paragraph := range strings.SplitSeq(strings.TrimSpace(string(data)), "\n\n") {
		heading := false
		for line := range strings.SplitSeq(paragraph, "\n") {
			verdict, name, ok := strings.Cut(line, "\t")
			switch {
			case strings.HasPrefix(line, "# "):
				heading = true
			case !ok || verdict != pass && verdict != passAnnotated && verdict != no:
				t.Fatalf("%s: unexpected line %q", listFile, line)
			case verdict == no && !heading:
				t.Fatalf("%s: %q: its paragraph needs a heading that says why", listFile, name)
			default:
				list = append(list, entry{verdict, name})
			}
		}
	}
	return list
}

// count returns the number of listed tests with a verdict.
func count(list []entry, verdict string) (n int) {
	for _, e := range list {
		if e.verdict == verdict {
			n++
		}
	}
	return n
}
