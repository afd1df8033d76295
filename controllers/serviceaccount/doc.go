// Package serviceaccount creates the ServiceAccount default in each active namespace.
//
//	serviceaccount.New(serviceaccount.Config{
//		Process: process, Client: server.Client(process), Informers: server.Informers(process),
//	})
//	host.Run() // or host.Start, on a live host
//
// The controller creates the account when a namespace is created, and recreates a deleted one.
//
// # What it does not do
//
// It creates no tokens. Package serviceaccounttoken writes those in secrets.
//
// Upstream: pkg/controller/serviceaccount serviceaccounts_controller.go (v1.36.3).
package serviceaccount
