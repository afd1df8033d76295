// Package clusterroleaggregation keeps the rules of aggregated ClusterRoles.
//
//	clusterroleaggregation.New(clusterroleaggregation.Config{
//		Process: process, Client: server.Client(process), Informers: server.Informers(process),
//	})
//
// A ClusterRole with an aggregationRule has the rules of all ClusterRoles that one of its selectors selects, each
// rule once, in the order of the selectors and of the roles' names. A change of any ClusterRole is a
// reason to look at all aggregated ones, since an aggregated role may select another one.
//
// Upstream: pkg/controller/clusterroleaggregation (v1.36.3).
package clusterroleaggregation
