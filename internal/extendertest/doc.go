// Package extendertest has cases of what follows from the answers of a scheduler's extender.
//
//	for _, c := range extendertest.Read("testdata/answers.yaml") {
//		server := httptest.NewServer(c)
//		… ask an extender at server.URL what c.Ask says, and compare with c.Want
//	}
//
// A [Case] is a handler with one answer. It is for several implementations of the client: each asks in its
// own types, and describes the result in the words of this package.
package extendertest
