// Package rootca puts the certificate of the cluster's authority into each namespace, in the ConfigMap kube-root-ca.crt.
//
// Upstream: pkg/controller/certificates/rootcacertpublisher (v1.36.3).
package rootca
