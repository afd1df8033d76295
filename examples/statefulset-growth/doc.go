// Package growth has operators that enlarge the claims of a StatefulSet, and finds the bugs in them.
//
//	failure, err := growth.Search(ctx, growth.TemplateFirst)
//	fmt.Print(scenario.Story(failure.Scenario, failure.Result))
//
// The claim templates of a StatefulSet cannot be changed. So operators of databases delete the set,
// orphan its pods, enlarge the claims themselves and create the set again with other templates. Three
// operators have had bugs in these steps. Each has a [Design] here, which was written after the
// report of the bug and has only the steps that matter. [Fixed] has none of the bugs.
//
// What it does not do: the operators have no status, no events and no Pod templates of a database.
// README.md has the reports, the results and the pictures.
package growth
