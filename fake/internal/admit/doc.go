// Package admit is the way from the write pipeline of package fake to what admits its requests: package fake/admission.
//
// The server makes a [Request] for each write. An [Admitter] may replace its object before validation, and refuse it
// before it is stored.
package admit
