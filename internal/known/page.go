package known

import (
	"fmt"
	"strings"
)

// FoundFile returns the text of found.txt.
func FoundFile(results map[string]Result) string {
	var b strings.Builder
	for _, bug := range Bugs() {
		r := results[bug.Name]
		fmt.Fprintf(&b, "%s %d %d\n", bug.Name, r.Schedules, r.Deviations)
	}
	return b.String()
}

// pageHead is the beginning of docs/known.md.
const pageHead = `# Real bugs that the search finds

Each row is a bug that was reported for a real project, and a small world in which the search of this
project finds it. "Schedules" is the number of orders of events that were run until it was found, and
"deviations" the number of places in which the order that fails differs from the default one. A test
runs all of them: it fails if a bug is no longer found, or if the mended code does not pass the same
search.

	volsim known                      # this table
	volsim known cloudnativepg-10427  # search for one, print its story and save it
	volsim known --all                # search for all; exit status 1 if one is no longer found

The code with the bug is written from the public report: a small reconciler, or a component of this
project that is given the reported behaviour. So a row says that the race of the report is found. It
does not say that the program of that project was run. Reports with the same race share a reconciler.

This page is written by ` + "`go test ./internal/known -update`" + `.

`

// Page returns the text of docs/known.md.
func Page(results map[string]Result) string {
	var b strings.Builder
	b.WriteString(pageHead)
	b.WriteString("| bug | project and report | year | found by | rule | schedules | deviations |\n|---|---|---|---|---|---:|---:|\n")
	bugs := Bugs()
	for _, bug := range bugs {
		var reports []string
		for i, address := range bug.Reports() {
			kind, number, _ := strings.Cut(bug.Issues[i], " ")
			reports = append(reports, fmt.Sprintf("[%s %s](%s)", kind, number, address))
		}
		r := results[bug.Name]
		fmt.Fprintf(&b, "| [%s](#%s) | %s: %s | %d | %s | %s | %d | %d |\n", bug.Name, bug.Name, bug.Project,
			strings.Join(reports, ", "), bug.Year, bug.FoundBy, bug.Rule, r.Schedules, r.Deviations)
	}
	for _, bug := range bugs {
		fmt.Fprintf(&b, "\n## %s\n\n**%s.** %s\n\nRule %s: %s.\n\n\tvolsim known %s\n", bug.Name, bug.Title, bug.What,
			bug.Rule, bug.forbids(), bug.Name)
	}
	return b.String()
}
