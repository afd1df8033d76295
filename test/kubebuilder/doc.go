// Package kubebuilder is the root of a project in kubebuilder's layout, whose test suite runs on
// package envtest of volsim.
//
// The import of envtest in internal/controller/suite_test.go is the only change to such a project.
// README.md has times.
package kubebuilder
