// Package external runs upstream's External Storage suite, by which Kubernetes certifies CSI drivers, against a
// live cluster whose containers run:
//
//	go test ./external -v
//	go test ./external -v -devices array
//	go test ./external -v -ginkgo.focus 'subPath'
//
// The tests are those of k8s.io/kubernetes/test/e2e/storage, unmodified. The whole suite and its cluster
// run in one bubble of testing/synctest, so their clock advances only when every goroutine waits.
// The clients of the suite reach the API server in memory, and its commands in containers by WebSocket over
// pipes. The commands of the suite's pods are executed by the cluster's shell.
//
// testdata/loop.txt and testdata/array.txt list every test of a driver with its capabilities, and say whether it
// passes.
package external
