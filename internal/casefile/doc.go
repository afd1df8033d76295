// Package casefile reads test cases from text files.
//
//	files, err := grammar.Read("testdata/cases")
//	for _, f := range files {
//		for _, c := range f.Cases { run(c.Setup, c.Steps) }
//	}
//
// A case is a story: a setup, steps, and the outcomes of each step. A test executes the case and
// compares the outcomes with the recorded ones, or rewrites them. Cases can be compared with the
// rows of another implementation's test tables.
//
// The package does not interpret lines. A Grammar only classifies paragraphs; each test interprets
// its own cases.
package casefile
