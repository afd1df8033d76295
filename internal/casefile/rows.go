package casefile

import (
	"fmt"
	"strconv"
	"strings"
)

// differs begins the paragraph that declares a deviation from the other implementation.
const differs = "differs: "

// A Table is a test table of the other implementation.
type Table struct {
	Name string // "FILE TEST"
	Rows []Row
}

// A Row is a row of a table. It has a case with its ID, unless As or Omitted is set.
type Row struct {
	ID      string
	As      string // ID of the row whose case covers the same behaviour
	Omitted string // reason for having no case
}

// ReadRows parses tables: a line "table FILE TEST N", followed by N rows, one per line: "ID", "ID
// as ID" or "ID omitted: WHY". Lines that begin with "#" are comments. Errors contain the line
// number.
func ReadRows(text string) ([]Table, error) {
	var tables []Table
	want := 0
	for i, line := range strings.Split(text, "\n") {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0 || strings.HasPrefix(line, "#"):
		case fields[0] == "table" && len(fields) == 4:
			if want != 0 {
				return nil, fmt.Errorf("line %d: %d rows missing before this line", i+1, want)
			}
			n, err := strconv.Atoi(fields[3])
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", i+1, err)
			}
			tables, want = append(tables, Table{Name: fields[1] + " " + fields[2]}), n
		case len(tables) > 0:
			row, err := readRow(line)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", i+1, err)
			}
			last := &tables[len(tables)-1]
			last.Rows = append(last.Rows, row)
			want--
		default:
			return nil, fmt.Errorf("line %d: row %q before the first table", i+1, line)
		}
	}
	if want != 0 {
		return nil, fmt.Errorf("%d rows missing", want)
	}
	return tables, nil
}

func readRow(line string) (Row, error) {
	row := Row{ID: line}
	if id, why, found := strings.Cut(line, " omitted: "); found {
		row = Row{ID: id, Omitted: why}
	} else if id, as, found := strings.Cut(line, " as "); found {
		row = Row{ID: id, As: as}
	}
	if strings.Contains(row.ID+row.As, " ") || row.ID == "" {
		return row, fmt.Errorf("invalid row %q: want an ID, optionally followed by \"as\" and an ID, or by \"omitted:\" and a reason", line)
	}
	return row, nil
}

// CompareRows compares the cases with the rows and returns the problems with their positions. A
// case whose ID ends in "+" is an addition to a row and needs no row itself.
func CompareRows(files []*File, tables []Table) []string {
	var wrong []string
	at := map[string]string{}
	var ids []string
	for _, f := range files {
		for _, c := range f.Cases {
			if at[c.ID] != "" {
				wrong = append(wrong, fmt.Sprintf("%s: duplicate case %s, also at %s", c.At, c.ID, at[c.ID]))
			}
			at[c.ID] = c.At
			ids = append(ids, c.ID)
		}
	}
	rows := map[string]bool{}
	for _, table := range tables {
		for _, row := range table.Rows {
			wrong = append(wrong, row.compare(table.Name, at)...)
			if rows[row.ID] {
				wrong = append(wrong, fmt.Sprintf("%s: duplicate row %s", table.Name, row.ID))
			}
			rows[row.ID] = true
		}
	}
	for _, id := range ids {
		if !rows[id] && !strings.HasSuffix(id, "+") {
			wrong = append(wrong, fmt.Sprintf("%s: no row %s", at[id], id))
		}
	}
	return wrong
}

// compare compares one row with the cases; at maps case IDs to positions.
func (r Row) compare(table string, at map[string]string) []string {
	switch {
	case r.As != "" && at[r.As] == "":
		return []string{fmt.Sprintf("%s: row %s refers to %s, which has no case", table, r.ID, r.As)}
	case at[r.ID] == "" && r.As == "" && r.Omitted == "":
		return []string{fmt.Sprintf("%s: row %s has no case and no reason for omitting it", table, r.ID)}
	case at[r.ID] != "" && (r.As != "" || r.Omitted != ""):
		return []string{fmt.Sprintf("%s: row %s has a case but is marked as having none", at[r.ID], r.ID)}
	}
	return nil
}

// List returns a Markdown table of the case of each row. folder is the folder of the cases,
// relative to the Markdown file. Tests with a single row are grouped.
func List(folder string, files []*File, tables []Table) string {
	var b strings.Builder
	b.WriteString("| upstream's table | rows | case of each row |\n|---|---|---|\n")
	fileOf := map[string]string{}
	var differing []string
	for _, f := range files {
		for _, c := range f.Cases {
			fileOf[c.ID] = f.Name
			for _, p := range c.Setup {
				if row, found := strings.CutPrefix(p.Head, differs); found {
					differing = append(differing, fmt.Sprintf("%s (%s)", c.ID, row))
				}
			}
		}
	}
	var omitted []string
	for _, table := range mergeSingleRows(tables) {
		fmt.Fprintf(&b, "| %s | %d | %s |\n", table.Name, len(table.Rows), table.list(folder, fileOf))
		for _, row := range table.Rows {
			if row.Omitted != "" {
				omitted = append(omitted, fmt.Sprintf("- %s: %s.\n", row.ID, row.Omitted))
			}
		}
	}
	fmt.Fprintf(&b, "\nOther outcomes than upstream's, each with its row above: %s.\n\nWithout a case:\n\n%s",
		strings.Join(differing, "; "), strings.Join(omitted, ""))
	return b.String()
}

// mergeSingleRows groups tables of one row each where at least three of the same file follow each
// other.
func mergeSingleRows(tables []Table) []Table {
	var all []Table
	for len(tables) > 0 {
		file, _, _ := strings.Cut(tables[0].Name, " ")
		n := 0
		for n < len(tables) && len(tables[n].Rows) == 1 && strings.HasPrefix(tables[n].Name, file+" ") {
			n++
		}
		if n < 3 {
			all, tables = append(all, tables[0]), tables[1:]
			continue
		}
		one := Table{Name: fmt.Sprintf("%s, %d tests", file, n)}
		for _, table := range tables[:n] {
			one.Rows = append(one.Rows, table.Rows...)
		}
		all, tables = append(all, one), tables[n:]
	}
	return all
}

// list returns links to the cases of one table.
func (t Table) list(folder string, fileOf map[string]string) string {
	var parts, ids []string
	last := ""
	flush := func() {
		if len(ids) > 0 {
			parts = append(parts, fmt.Sprintf("[%s.txt](%s/%s.txt): %s", last, folder, last, strings.Join(ids, ", ")))
		}
		ids = nil
	}
	for _, row := range t.Rows {
		id, text := row.ID, row.ID
		switch {
		case row.Omitted != "":
			continue
		case row.As != "":
			id, text = row.As, fmt.Sprintf("%s (as %s)", row.ID, row.As)
		}
		if fileOf[id] != last {
			flush()
			last = fileOf[id]
		}
		ids = append(ids, text)
	}
	flush()
	return strings.Join(parts, "; ")
}
