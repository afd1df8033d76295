// Package quota measures objects against ResourceQuotas.
//
//	used, err := quota.Charge(q, quota.Request{Resource: gr, Object: claim, Now: now})
//	used, err = quota.Total(q, gr, claims, now)
//
// An object uses resources, which its kind decides: a claim uses requests.storage, a pod uses
// requests.cpu, an object of any kind counts. A quota concerns the resources in its status.hard, and
// only objects in all of its scopes. Charge is for admission: it returns what a quota has used after
// a request, or why the request exceeds it. Total is for the controller, which adds up what exists.
//
// # What it does not do
//
// ResourceClaims are counted; their devices are not. There are no resources that are limited by
// default: the API server has no such configuration.
//
// Upstream: k8s.io/apiserver/pkg/quota/v1, pkg/admission/plugin/resourcequota;
// pkg/quota/v1/evaluator/core (v1.36).
package quota
