// Package audit writes the audit log of the fake API server.
//
//	log, err := audit.New(audit.Config{Out: os.Stdout, Level: "Request"})
//	handler := apiserver.NewHandler(server, apiserver.HandlerConfig{Caller: caller, Audit: log})
//
// The log has one line of JSON for each event, in upstream's format audit.k8s.io/v1. A request is an
// event when it is received and when its response is complete; a watch also when its response starts.
// A policy in upstream's format decides which requests are recorded, and how much of them: metadata, the
// object that was sent, or the response as well. Policy, events and format are upstream's own code.
//
// Times of events are those of the simulation, as those of objects.
//
// # What it does not do
//
// Only requests by HTTP are recorded. Components in the same process, such as the controllers of a
// cluster, call the API server directly; the trace has their requests. There are no batches, no rotation
// of files, and no webhook for events.
//
// Upstream: k8s.io/apiserver pkg/audit, pkg/endpoints/filters WithAudit, plugin/pkg/audit/log (v1.36).
package audit
