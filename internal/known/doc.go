// Package known has real bugs of storage controllers and operators that the search finds.
//
//	bug, err := known.Find("cloudnativepg-10427")
//	report, err := bug.Search(ctx, known.Broken, explore.Config{})
//	if report.Failure != nil {
//		fmt.Print(scenario.Story(report.Failure.Scenario, report.Failure.Result))
//	}
//
// A [Bug] is a scenario and the code that has the bug. That code is a small reconciler written from the
// public report, or an interceptor that gives one of this module's components the behaviour that was
// reported. Each bug has a mended form, which passes the same search. The file found.txt has the
// numbers of schedules; TestEveryBugIsFound checks it, and "go test ./internal/known -update" writes it
// and docs/known.md.
//
// # Limits
//
// A reconciler has the read and write pattern of the report and nothing else. Clusters of operators are
// ConfigMaps instead of custom resources. So a row says that this race is found, not that the program
// of that project was run.
package known
