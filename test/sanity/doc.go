// Package sanity runs csi-test's sanity specs against the program "volsim driver" over its unix
// socket. It is a separate module: csi-test requires CSI 1.13 and Ginkgo, which the conformance
// module and the library do not.
//
// All specs run and none fails. Specs that a driver's capabilities exclude are listed in
// drivers_test.go, each with the reason. A skipped spec without an entry fails the test, and so
// does an unused entry.
package sanity
