// Package admissiondiff compares admission policies with upstream's plugins and validation.
//
// A drawn world has policies, bindings, parameters and namespaces. Drawn requests are decided by our Admitter, which reads
// our server's store, and by upstream's plugins ValidatingAdmissionPolicy and MutatingAdmissionPolicy, which read client-go's
// fake clientset through informers: decision, message, reason, warnings, audit annotations and object must be the same.
//
// Drawn policies, bindings and configurations of webhooks, most of them invalid, are sent to our server and to upstream's
// validation: the errors must be the same, apart from their order.
package admissiondiff
