// Package casefile reads cases: stories in text files, each with what is there, what happens, and what comes of it. A test
// lets a case happen and compares what comes of it with what is written, or writes it. Cases may be held against the rows of
// another implementation's tables.
//
// What the lines of a case mean is not here; a Grammar tells only which of them is what. A test of a component has the rest.
package casefile
