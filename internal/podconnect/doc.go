// Package podconnect is what an API server and a kubelet know of each other about the log of a pod and about commands
// that are executed in it.
//
//	opts, err := podconnect.LogOptions(r.URL.Query()) // in the API server: what the client wants
//	url.RawQuery = podconnect.LogQuery(opts).Encode() // what the kubelet is asked
//
// Upstream has the conversion from a query in the scheme of its internal types, which this module does not link.
// [BodyTaker] lets a kubelet answer a request in memory with a body that is read later.
//
// Upstream: pkg/apis/core/v1 Convert_url_Values_To_v1_PodLogOptions, pkg/registry/core/pod LogLocation, streamParams
// (v1.36).
package podconnect
