package rbac

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// bootstrapLines are the roles and bindings of Kubernetes 1.36.3, one object a line. A conformance test
// compares them with upstream's.
//
//go:embed bootstrap.jsonl
var bootstrapLines []byte

// Bootstrap returns the roles and bindings that a server starts with, in upstream's order. Aggregated roles have
// the rules that they aggregate. The objects are shared: they are read only.
//
// Upstream: plugin/pkg/auth/authorizer/rbac/bootstrappolicy.
var Bootstrap = sync.OnceValue(func() Objects {
	var all Objects
	for line := range bytes.Lines(bootstrapLines) {
		var head metav1.TypeMeta
		must(json.Unmarshal(line, &head))
		switch head.Kind {
		case "ClusterRole":
			all.ClusterRoles = appendDecoded(all.ClusterRoles, line)
		case "ClusterRoleBinding":
			all.ClusterRoleBindings = appendDecoded(all.ClusterRoleBindings, line)
		case "Role":
			all.Roles = appendDecoded(all.Roles, line)
		default:
			all.RoleBindings = appendDecoded(all.RoleBindings, line)
		}
	}
	sorted := slices.SortedFunc(slices.Values(all.ClusterRoles), func(a, b *rbacv1.ClusterRole) int { return strings.Compare(a.Name, b.Name) })
	for changed := true; changed; {
		changed = false
		for _, r := range sorted {
			rules, err := Aggregate(r, sorted)
			must(err)
			if r.AggregationRule != nil && len(rules) != len(r.Rules) {
				r.Rules, changed = rules, true
			}
		}
	}
	return all
})

func appendDecoded[T any](to []*T, line []byte) []*T {
	obj := new(T)
	must(json.Unmarshal(line, obj))
	return append(to, obj)
}

func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("rbac: bootstrap.jsonl: %v", err)) // it is part of the program
	}
}

// Aggregate returns the rules of the roles that an aggregated role selects, each rule once. The roles are sorted
// by name. Without an AggregationRule they are the role's own.
//
// Upstream: pkg/controller/clusterroleaggregation syncClusterRole.
func Aggregate(role *rbacv1.ClusterRole, all []*rbacv1.ClusterRole) ([]rbacv1.PolicyRule, error) {
	if role.AggregationRule == nil {
		return role.Rules, nil
	}
	var rules []rbacv1.PolicyRule
	seen := map[string]bool{}
	for i := range role.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&role.AggregationRule.ClusterRoleSelectors[i])
		if err != nil {
			return nil, err
		}
		for _, other := range all {
			if other.Name == role.Name || !selector.Matches(labels.Set(other.Labels)) {
				continue
			}
			for _, rule := range other.Rules {
				if text := rule.String(); !seen[text] {
					seen[text] = true
					rules = append(rules, rule)
				}
			}
		}
	}
	return rules, nil
}
