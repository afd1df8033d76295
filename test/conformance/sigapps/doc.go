// Package sigapps runs upstream's end-to-end conformance tests of workloads (sig-apps) against a
// live cluster:
//
//	go test ./sigapps -v
//	go test ./sigapps -v -ginkgo.focus 'canary'
//
// The tests are those of k8s.io/kubernetes/test/e2e/apps, unmodified. The whole suite and its cluster
// run in one bubble of testing/synctest, so their clock advances only when every goroutine waits: a
// quarter of an hour of polls, schedules and back-off takes a second. The clients of the suite reach
// the API server in memory.
//
// testdata/tests.txt lists every conformance test and says whether it passes. No containers run, so a
// few tests cannot pass. In others, which look only at the exit codes or at the readiness of
// containers, the test sets the annotations of pods that stand for them: what the command of the
// container would exit with, a probe that fails, an image that does not exist.
package sigapps
