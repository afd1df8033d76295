// Package podtokens requests service account tokens for pods and replaces them in time.
//
//	tokens := podtokens.New(process, client)
//	token, err := tokens.Get(ctx, pod, podtokens.Request{Audience: "vault"})
//	tokens.Forget(pod.UID)
//
// A token is bound to its pod. It is requested again when a fifth of its lifetime is left, or after
// a day; while that fails, the old one is used until it expires.
//
// Upstream: pkg/kubelet/token (v1.36).
package podtokens
