// Package rootca publishes the cluster's root certificate in each namespace, in the ConfigMap
// kube-root-ca.crt.
//
//	rootca.New(rootca.Config{
//		Process: process, Client: server.Client(process), Informers: server.Informers(process),
//		RootCA: pem,
//	})
//	host.Run() // or host.Start, on a live host
//
// The controller creates the config map in every namespace. It corrects a config map with other
// content, and recreates a deleted one.
//
// # What it does not do
//
// It does not watch a certificate file: the certificate is constant.
//
// Upstream: pkg/controller/certificates/rootcacertpublisher (v1.36.3).
package rootca
