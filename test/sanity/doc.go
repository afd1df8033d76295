// Package sanity runs csi-test's sanity specs against "volsim driver", the real
// program, over its unix socket. It is a module of its own: csi-test needs CSI
// 1.13 and Ginkgo, which the conformance module and the library do not.
//
// All specs run, and none fails. The few that a driver's capabilities leave out are
// listed in drivers_test.go, each with the reason; one that is left out and not listed fails
// the test, as does one that is listed and runs.
package sanity
