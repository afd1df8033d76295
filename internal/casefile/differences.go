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

// CheckDifferences checks the deviations from upstream that cases declare, and returns the problems
// with their positions. "differs: TITLE" must contain one line with upstream's outcome and one with
// ours. A row of the Markdown tables with that title must describe the difference. One of the Go
// files named in the row, in folder, must contain a "Differs:" comment.
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
	if len(p.Body) != 2 || !strings.HasPrefix(p.Body[0].Text, "upstream: ") ||
		!strings.HasPrefix(p.Body[1].Text, "here: ") {
		return fmt.Errorf("invalid differs paragraph: want the lines \"upstream: …\" and \"here: …\"")
	}
	i := slices.IndexFunc(rows, func(row []string) bool { return row[1] == title })
	if i < 0 || rows[i][4] == "–" {
		return fmt.Errorf("no table row with a difference titled %q", title)
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
	return fmt.Errorf("no \"Differs:\" comment in %s", rows[i][2])
}
