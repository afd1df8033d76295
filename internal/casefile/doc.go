// Package casefile reads test cases from text files and runs them.
//
//	book := casefile.Book{Grammar: grammar, Folder: "testdata/cases", Run: runCase, …}
//	book.TestCases(t)
//
//	r := &world{Run: casefile.Run{Host: host, Process: process}}
//	err := r.Execute(file, c, r, "settle")
//
// A case is a story: a setup, steps, and the outcomes of each step. A test executes the case and
// compares the outcomes with the recorded ones, or rewrites them. Cases can be compared with the
// rows of another implementation's test tables.
//
// A Grammar classifies paragraphs, and a World interprets them: each controller has its own. A Run
// is common to the worlds on a stepped host. It injects faults into requests, executes acts of other
// programs at requests, and collects events, records and problems.
//
// What it does not do: it starts no API server and knows no steps. The words of objects are the
// test's; see Kind.
package casefile
