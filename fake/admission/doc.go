// Package admission adds admission webhooks and policies to a server of package fake.
//
//	server := fake.NewServer(fake.Config{…})
//	admission.Serve(server)
//
// From then on, the server acts by the configurations and policies of admissionregistration.k8s.io that it stores. A
// program that does not import this package does not link the code for HTTPS and CEL, and its server stores them only.
// Clusters of package cluster call Serve themselves, in programs that import this package.
//
// # Webhooks
//
// A webhook with a URL is called there, by HTTPS. A reference to a Service is resolved to the Service's external name or
// to its first ready endpoint. fake.Config.Services has the Services that answer inside the process, without TLS; their
// handlers may be those of controller-runtime, and may make requests of their own.
//
// Rules, selectors, match conditions, equivalent versions, reinvocation, side effects, failure policies, timeouts and the
// texts of refusals are upstream's; for most of them this package calls upstream's own code, k8s.io/apiserver.
//
// In a stepped world each call is a suspension point, "webhook NAME" in the trace: other tasks may run before it, and
// the host may let it fail. A handler inside the process is slow if it sleeps in the world; it fails when the webhook's
// timeout has passed there.
//
// Differs: validating webhooks are called one after the other, in the order of their names, and the first refusal is the
// answer; upstream calls them at once. A changed configuration counts from the next request on, not a moment later.
//
// Upstream: k8s.io/apiserver/pkg/admission/plugin/webhook, policy (v1.36).
package admission
