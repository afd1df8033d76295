// Package serviceaccounttoken writes tokens of service accounts to secrets.
//
//	serviceaccounttoken.New(serviceaccounttoken.Config{
//		Process: process, Client: server.Client(process), Informers: server.Informers(process),
//		RootCA: certificate, Token: server.LegacyToken,
//	})
//	host.Run() // or host.Start, on a live host
//
// A secret of the type kubernetes.io/service-account-token names an account in its annotation. The controller adds the
// token, the certificate, the namespace and the UID of the account, and adds again what is removed. It deletes the
// secrets of accounts that do not exist, and removes references to deleted secrets from their accounts.
//
// # What it does not do
//
// It gives no account a secret of its own accord, as no Kubernetes since 1.24 does, and does not clean up unused ones.
//
// Upstream: pkg/controller/serviceaccount tokens_controller.go (v1.36.3).
package serviceaccounttoken
