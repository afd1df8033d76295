// Package mockdriver checks the mock CSI driver of Kubernetes' end-to-end tests with csitest.
package mockdriver
