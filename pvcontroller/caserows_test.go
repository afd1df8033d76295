package pvcontroller

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// upstreamTable is one of upstream's tables.
type upstreamTable struct {
	name string // "FILE TEST"
	rows []upstreamRow
}

type upstreamRow struct {
	id      string
	omitted string // why it has no case
}

// readRows reads testdata/cases/rows.
func readRows(text string) ([]upstreamTable, error) {
	var tables []upstreamTable
	want := 0
	for i, line := range strings.Split(text, "\n") {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0 || strings.HasPrefix(line, "#"):
		case fields[0] == "table" && len(fields) == 4:
			tables = append(tables, upstreamTable{name: fields[1] + " " + fields[2]})
			n, err := strconv.Atoi(fields[3])
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", i+1, err)
			}
			want += n
		case len(tables) > 0:
			id, why, omitted := strings.Cut(line, " omitted: ")
			if strings.Contains(id, " ") || omitted && why == "" {
				return nil, fmt.Errorf("line %d: %q", i+1, line)
			}
			last := &tables[len(tables)-1]
			last.rows = append(last.rows, upstreamRow{id, why})
			want--
		default:
			return nil, fmt.Errorf("line %d: %q before any table", i+1, line)
		}
	}
	if want != 0 {
		return nil, fmt.Errorf("%d rows are missing", want)
	}
	return tables, nil
}

func casesAndRows(t *testing.T) ([]*caseFile, []upstreamTable) {
	t.Helper()
	files, err := readCases(casesFolder)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(casesFolder, "rows"))
	if err != nil {
		t.Fatal(err)
	}
	tables, err := readRows(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return files, tables
}

// TestEveryRowOfUpstreamHasItsCase compares the cases with the rows of upstream's tables.
func TestEveryRowOfUpstreamHasItsCase(t *testing.T) {
	files, tables := casesAndRows(t)
	at := map[string]string{}
	for _, f := range files {
		for _, c := range f.cases {
			if at[c.id] != "" {
				t.Errorf("%s: case %s is at %s, too", c.at, c.id, at[c.id])
			}
			at[c.id] = c.at
		}
	}
	for _, table := range tables {
		for _, row := range table.rows {
			switch {
			case at[row.id] == "" && row.omitted == "":
				t.Errorf("%s: row %s has no case, and no reason why not", table.name, row.id)
			case at[row.id] != "" && row.omitted != "":
				t.Errorf("%s: row %s is omitted, and has a case", at[row.id], row.id)
			}
			delete(at, row.id)
		}
	}
	for id, where := range at { // each is an error of its own: no order
		if !strings.HasSuffix(id, "+") {
			t.Errorf("%s: upstream has no row %s", where, id)
		}
	}
}

const (
	listBegin = "<!-- cases: written by go test ./pvcontroller -run TestUpstreamLists -update -->\n"
	listEnd   = "<!-- end of cases -->\n"
)

// TestUpstreamLists compares what UPSTREAM.md says about the cases with what there is. With -update it is written.
func TestUpstreamLists(t *testing.T) {
	files, tables := casesAndRows(t)
	path := filepath.Join("..", "UPSTREAM.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), listBegin)
	written, after, foundEnd := strings.Cut(rest, listEnd)
	if !found || !foundEnd {
		t.Fatalf("%s: want %q and %q", path, listBegin, listEnd)
	}
	list := listOf(files, tables)
	if *update && list != written {
		if err := os.WriteFile(path, []byte(before+listBegin+list+listEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(strings.Split(written, "\n"), strings.Split(list, "\n")); diff != "" {
		t.Errorf("%s: the cases (-written +there):\n%s", path, diff)
	}
}

// listOf tells in Markdown which case each row of upstream's tables has.
func listOf(files []*caseFile, tables []upstreamTable) string {
	var b strings.Builder
	b.WriteString("| upstream's table | rows | case of each row |\n|---|---|---|\n")
	fileOf := map[string]string{}
	var differing []string
	for _, f := range files {
		for _, c := range f.cases {
			fileOf[c.id] = f.name
			for _, p := range c.setup {
				if row, found := strings.CutPrefix(p.head, "differs: "); found {
					differing = append(differing, fmt.Sprintf("%s (%s)", c.id, row))
				}
			}
		}
	}
	var omitted []string
	for _, table := range tables {
		var parts, ids []string
		last := ""
		flush := func() {
			if len(ids) > 0 {
				parts = append(parts, fmt.Sprintf("[%s.txt](pvcontroller/%s/%s.txt): %s", last, casesFolder, last, strings.Join(ids, ", ")))
			}
			ids = nil
		}
		for _, row := range table.rows {
			if row.omitted != "" {
				omitted = append(omitted, fmt.Sprintf("- %s: %s.\n", row.id, row.omitted))
				continue
			}
			if fileOf[row.id] != last {
				flush()
				last = fileOf[row.id]
			}
			ids = append(ids, row.id)
		}
		flush()
		fmt.Fprintf(&b, "| %s | %d | %s |\n", table.name, len(table.rows), strings.Join(parts, "; "))
	}
	fmt.Fprintf(&b, "\nOther outcomes than upstream's, each with its row above: %s.\n\nWithout a case:\n\n%s",
		strings.Join(differing, "; "), strings.Join(omitted, ""))
	return b.String()
}

var tableRow = regexp.MustCompile(`(?m)^\| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$`)

// TestDifferencesAreDocumented looks up what each case says of its difference: a row of UPSTREAM.md that tells of one, and a
// docstring in the file that the row names.
func TestDifferencesAreDocumented(t *testing.T) {
	files, _ := casesAndRows(t)
	text, err := os.ReadFile(filepath.Join("..", "UPSTREAM.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := tableRow.FindAllStringSubmatch(string(text), -1)
	for _, f := range files {
		for _, c := range f.cases {
			for _, p := range c.setup {
				title, found := strings.CutPrefix(p.head, "differs: ")
				if !found {
					continue
				}
				if len(p.body) != 2 || !strings.HasPrefix(p.body[0].text, "upstream: ") || !strings.HasPrefix(p.body[1].text, "here: ") {
					t.Errorf("%s: want a line of upstream's outcome, and one of ours", p.at)
				}
				i := slices.IndexFunc(rows, func(row []string) bool { return row[1] == title })
				if i < 0 || rows[i][4] == "–" {
					t.Errorf("%s: UPSTREAM.md tells of no difference under %q", p.at, title)
					continue
				}
				checkDocstring(t, p.at, rows[i][2])
			}
		}
	}
}

// checkDocstring looks for a difference in the docstrings of the files that a cell of UPSTREAM.md names.
func checkDocstring(t *testing.T, at, cell string) {
	t.Helper()
	for _, quoted := range regexp.MustCompile("`[^`]+\\.go`").FindAllString(cell, -1) {
		source, err := os.ReadFile(filepath.Base(strings.Trim(quoted, "`")))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(source), "\n// Differs: ") {
			return
		}
	}
	t.Errorf("%s: no docstring of %s tells of a difference", at, cell)
}
