// Package volsim is the whole Kubernetes storage control plane in one process.
package volsim
