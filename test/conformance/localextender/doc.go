// Package localextender checks that upstream's kube-scheduler, k8s.io/kubernetes 1.36.3, places pods with the extender of
// local storage.
//
// Its test runs the program's own code, configured by a file, against a live cluster without our scheduler. The extender
// is served over HTTP.
package localextender
