package casefile

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var (
	tableRow = regexp.MustCompile(`(?m)^\| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$`)
	goFile   = regexp.MustCompile("`[^`]+\\.go`")
)

// CheckDifferences looks up what the cases say of other outcomes than upstream's, and tells what is wrong, each with where it is:
// "differs: TITLE" has a line of upstream's outcome under it and one of ours; markdown has a row of that title that tells of a
// difference; and of the Go files that the row names, which are in folder, one has a docstring that does.
func CheckDifferences(files []*File, markdown, folder string) []string {
	rows := tableRow.FindAllStringSubmatch(markdown, -1)
	var wrong []string
	for _, f := range files {
		for _, c := range f.Cases {
			for _, p := range c.Setup {
				if title, found := strings.CutPrefix(p.Head, differs); found {
					if err := p.checkDifference(title, rows, folder); err != nil {
						wrong = append(wrong, fmt.Sprintf("%s: %v", p.At, err))
					}
				}
			}
		}
	}
	return wrong
}

func (p *Paragraph) checkDifference(title string, rows [][]string, folder string) error {
	if len(p.Body) != 2 || !strings.HasPrefix(p.Body[0].Text, "upstream: ") || !strings.HasPrefix(p.Body[1].Text, "here: ") {
		return fmt.Errorf("want a line of upstream's outcome, and one of ours")
	}
	i := slices.IndexFunc(rows, func(row []string) bool { return row[1] == title })
	if i < 0 || rows[i][4] == "–" {
		return fmt.Errorf("no row of the tables tells of a difference under %q", title)
	}
	for _, quoted := range goFile.FindAllString(rows[i][2], -1) {
		source, err := os.ReadFile(filepath.Join(folder, filepath.Base(strings.Trim(quoted, "`"))))
		if err != nil {
			return err
		}
		if strings.Contains(string(source), "\n// Differs: ") {
			return nil
		}
	}
	return fmt.Errorf("no docstring of %s tells of a difference", rows[i][2])
}
