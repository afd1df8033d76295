package casefile

import (
	"fmt"
	"strconv"
	"strings"
)

// differs begins the paragraph that tells of another outcome than the other implementation's.
const differs = "differs: "

// Table is one of the other implementation's tables.
type Table struct {
	Name string // "FILE TEST"
	Rows []Row
}

// Row is a row of a table. It has a case of its id, unless one of the others is set.
type Row struct {
	ID      string
	As      string // the row whose case is about the same behaviour
	Omitted string // why it has no case
}

// ReadRows reads tables: "table FILE TEST N", and then their N rows, one a line: "ID", "ID as ID" or "ID omitted: WHY". Lines
// that begin with "#" are remarks. The error names the line.
func ReadRows(text string) ([]Table, error) {
	var tables []Table
	want := 0
	for i, line := range strings.Split(text, "\n") {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0 || strings.HasPrefix(line, "#"):
		case fields[0] == "table" && len(fields) == 4:
			if want != 0 {
				return nil, fmt.Errorf("line %d: %d rows are missing before it", i+1, want)
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
			return nil, fmt.Errorf("line %d: %q before any table", i+1, line)
		}
	}
	if want != 0 {
		return nil, fmt.Errorf("%d rows are missing", want)
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
		return row, fmt.Errorf("%q: want an id, and perhaps another after \"as\", or a reason after \"omitted:\"", line)
	}
	return row, nil
}

// CompareRows holds the cases against the rows, and tells what is wrong, each with where it is. A case whose id ends in "+" stands
// beside a row.
func CompareRows(files []*File, tables []Table) []string {
	var wrong []string
	at := map[string]string{}
	var ids []string
	for _, f := range files {
		for _, c := range f.Cases {
			if at[c.ID] != "" {
				wrong = append(wrong, fmt.Sprintf("%s: case %s is at %s, too", c.At, c.ID, at[c.ID]))
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
				wrong = append(wrong, fmt.Sprintf("%s: row %s is there twice", table.Name, row.ID))
			}
			rows[row.ID] = true
		}
	}
	for _, id := range ids {
		if !rows[id] && !strings.HasSuffix(id, "+") {
			wrong = append(wrong, fmt.Sprintf("%s: there is no row %s", at[id], id))
		}
	}
	return wrong
}

// compare holds one row against the cases; at is where they are.
func (r Row) compare(table string, at map[string]string) []string {
	switch {
	case r.As != "" && at[r.As] == "":
		return []string{fmt.Sprintf("%s: row %s is as %s, which has no case", table, r.ID, r.As)}
	case at[r.ID] == "" && r.As == "" && r.Omitted == "":
		return []string{fmt.Sprintf("%s: row %s has no case, and no reason why not", table, r.ID)}
	case at[r.ID] != "" && (r.As != "" || r.Omitted != ""):
		return []string{fmt.Sprintf("%s: row %s has a case, and is said to have none", at[r.ID], r.ID)}
	}
	return nil
}

// List tells in Markdown which case each row has. folder is where the cases are, from where the list stands. Tests of one row
// each are told of together.
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

// mergeSingleRows puts tests of one row each together where at least three of a file follow one another.
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

// list tells of one table where its cases are.
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
		id, told := row.ID, row.ID
		switch {
		case row.Omitted != "":
			continue
		case row.As != "":
			id, told = row.As, fmt.Sprintf("%s (as %s)", row.ID, row.As)
		}
		if fileOf[id] != last {
			flush()
			last = fileOf[id]
		}
		ids = append(ids, told)
	}
	flush()
	return strings.Join(parts, "; ")
}
