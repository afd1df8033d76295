package casefile_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/volsim/volsim/internal/casefile"
)

var grammar = casefile.Grammar{
	Setup:    regexp.MustCompile(`^before$`),
	Act:      regexp.MustCompile(`^settle$`),
	Outcomes: []string{"after"},
}

const text = `# A remark.
always
  node n

=== a-1 it is so
before
  volume v
settle
after
  this line is regenerated

=== a-2 it is otherwise
differs: a row
  upstream: so
  here: otherwise
settle
`

func parse(t *testing.T, text string) *casefile.File {
	t.Helper()
	f, err := grammar.Parse("f.txt", text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestRenderWritesOutcomes(t *testing.T) {
	f := parse(t, text)
	if len(f.Always) != 1 || f.Always[0].Body[0].Text != "node n" || f.Cases[0].Setup[0].Body[0].At != "f.txt:7" {
		t.Errorf("read %+v", f)
	}
	if outcomes := f.Cases[0].Steps[0].Outcomes; len(outcomes) != 1 || outcomes[0] != "after" {
		t.Errorf("outcomes of the step: %q", outcomes)
	}
	got := f.Render(map[*casefile.Case][][]casefile.Section{
		f.Cases[0]: {{{Head: "after", Lines: []string{"volume v"}}}},
	})
	want := strings.Replace(text, "this line is regenerated", "volume v", 1)
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if cases := casefile.SplitCases(got); cases["a-2"] != f.Cases[1].Render(nil) {
		t.Errorf("split case: %q", cases["a-2"])
	}
}

func TestParseErrorsHavePositions(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"before\n", ""},
		{"settle\n", `f.txt:1: unexpected paragraph "settle": want "always"`},
		{"=== 1 one\nbefore\n", "f.txt:1: case 1 has no steps"},
		{"=== 1 one\nafter\nsettle\n", `f.txt:2: unexpected paragraph "after": want a setup paragraph`},
		{"=== 1 one\nsettle\nbefore\n", `f.txt:3: unexpected paragraph "before": want a setup paragraph`},
	} {
		_, err := grammar.Parse("f.txt", tt.text)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)) {
			t.Errorf("%q: %v, want %q", tt.text, err, tt.want)
		}
	}
}

func TestRowsHaveTheirCases(t *testing.T) {
	f := parse(t, text+"\n=== b+ ours\nsettle\n")
	for _, tt := range []struct{ rows, want string }{
		{"table x_test.go TestX 3\na-1\na-2\na-3 as a-1", ""},
		{"table x_test.go TestX 3\na-1\na-2\na-3 omitted: not supported", ""},
		{"table x_test.go TestX 1\na-1", "f.txt:12: no row a-2"},
		{"table x_test.go TestX 3\na-1\na-2\na-3", "row a-3 has no case"},
		{"table x_test.go TestX 3\na-1\na-2\na-3 as a-4", "row a-3 refers to a-4, which has no case"},
		{"table x_test.go TestX 2\na-1\na-2 omitted: why", "row a-2 has a case but is marked as having none"},
		{"table x_test.go TestX 3\na-1\na-2\na-1", "duplicate row a-1"},
	} {
		tables, err := casefile.ReadRows(tt.rows)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(casefile.CompareRows([]*casefile.File{f}, tables), "\n")
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%q: %q, want %q", tt.rows, got, tt.want)
		}
	}
	for _, rows := range []string{"a-1", "table x TestX 2\na-1", "table x TestX 1\n", "table x TestX 1\ntable y TestY 0", "table x TestX 1\na b"} {
		if _, err := casefile.ReadRows(rows); err == nil {
			t.Errorf("no error for %q", rows)
		}
	}
}

func TestListContainsEachRow(t *testing.T) {
	f := parse(t, text)
	tables, err := casefile.ReadRows("table x_test.go TestX 4\na-1\na-2\na-3 as a-1\na-4 omitted: not supported")
	if err != nil {
		t.Fatal(err)
	}
	got := casefile.List("folder", []*casefile.File{f}, tables)
	for _, want := range []string{
		"| x_test.go TestX | 4 | [f.txt](folder/f.txt): a-1, a-2, a-3 (as a-1) |\n",
		"a-2 (a row).", "- a-4: not supported.\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func TestListGroupsTestsOfOneRow(t *testing.T) {
	f := parse(t, text)
	const three = "table x_test.go TestX 1\na-1\ntable x_test.go TestY 1\na-2\ntable x_test.go TestZ 1\nz omitted: no\n"
	tables, err := casefile.ReadRows(three + "table y_test.go TestX 1\na-3 as a-1")
	if err != nil {
		t.Fatal(err)
	}
	got := casefile.List("folder", []*casefile.File{f}, tables)
	for _, want := range []string{
		"| x_test.go, 3 tests | 3 | [f.txt](folder/f.txt): a-1, a-2 |\n", "| y_test.go TestX | 1 | [f.txt](folder/f.txt): a-3 (as a-1) |\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func TestCheckDifferences(t *testing.T) {
	f := parse(t, text)
	for _, tt := range []struct{ markdown, want string }{
		{"| a row | `differences.go` | TestX | other |", "no \"Differs:\" comment in `differences.go`"},
		{"| a row | `differences.go` | TestX | – |", `f.txt:13: no table row with a difference titled "a row"`},
		{"", `f.txt:13: no table row with a difference titled "a row"`},
		{"| a row | `f.go` | TestX | other |", "no such file"},
	} {
		got := strings.Join(casefile.CheckDifferences([]*casefile.File{f}, tt.markdown, "."), "\n")
		if !strings.Contains(got, tt.want) {
			t.Errorf("%q: %q, want %q", tt.markdown, got, tt.want)
		}
	}
}

func TestWords(t *testing.T) {
	const line = `volume v csi=d message="a \"b\"" empty=""`
	all, err := casefile.ParseWords(line)
	if err != nil {
		t.Fatal(err)
	}
	if all[2] != casefile.KeyValue("csi", "d") || all[3].Value != `a "b"` {
		t.Errorf("words %q", all)
	}
	if got := casefile.JoinWords(all); got != line {
		t.Errorf("joined %q, want %q", got, line)
	}
	if _, err := casefile.ParseWords(`a="b`); err == nil {
		t.Error("quotes without an end are read")
	}
}
