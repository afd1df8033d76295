// Package webhookcases runs upstream's own table of cases about admission webhooks against our API server.
//
// The cases, and the server that answers, are those of k8s.io/apiserver/pkg/admission/plugin/webhook/testing, with which
// upstream tests its plugins: what is refused, in which words and with which code, labels afterwards, audit annotations.
// Ours creates the pod or the custom object of a case, instead of calling a plugin.
package webhookcases
