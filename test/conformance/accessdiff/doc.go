// Package accessdiff compares the decisions about access with those of upstream's authorizers.
//
// A drawn world has roles, bindings, pods, claims, volumes and secrets. Reviews of drawn users and requests are
// answered by our API server, and by upstream's RBAC and Node authorizers over the same objects: the
// decisions and their reasons must be the same. So must the outcomes of creations of roles and bindings by drawn
// users, with upstream's check for escalation.
package accessdiff
