// Package volsim is the whole Kubernetes storage control plane in one process, behind a fake API server, with real block
// devices underneath.
//
// Begin with package [github.com/volsim/volsim/cluster], which puts a world together. ARCHITECTURE.md tells how the parts
// fit, and README.md where each behaviour is. This package itself holds nothing but the tests of the house rules.
package volsim
