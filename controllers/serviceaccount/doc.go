// Package serviceaccount sees to it that each active namespace has the ServiceAccount default.
//
// Upstream: pkg/controller/serviceaccount (v1.36.3), its serviceaccounts_controller.go. Tokens are not made: pods here get
// none.
package serviceaccount
