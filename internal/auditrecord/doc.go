// Package auditrecord is what an API handler and an audit log know of each other.
//
//	record, err := log.Begin(r, auditrecord.Request{User: user, Now: caller.Now})
//	defer func() { record.Complete() }()
//
// A [Log] opens a [Record] for each request, and the handler adds to it what it learns: whether the
// request is allowed, its object, its response. Package fake/audit implements both, so that programs
// without an audit log do not link the libraries of one. The record in a request's context is that
// of [With]; a request that is not recorded has a record that does nothing.
package auditrecord
