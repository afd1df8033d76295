// Package rbac decides what a user may do, by roles and their bindings.
//
// A Policy is made of the roles and bindings of one moment, and does not change. It answers two
// questions: may a user make a request (Authorize), and which rules does a user have (RulesFor). On the
// second one stands the check that no user grants what the user does not hold (Escalation).
//
// A binding whose role does not exist grants nothing, and is named in the reason of a refusal.
//
// Upstream: plugin/pkg/auth/authorizer/rbac, pkg/registry/rbac/validation, pkg/registry/rbac.
package rbac
