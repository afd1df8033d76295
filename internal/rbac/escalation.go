package rbac

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/component-helpers/auth/rbac/validation"
)

// Everything are the rules that allow everything.
var Everything = []rbacv1.PolicyRule{
	{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}},
	{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}},
}

// Escalation returns an error if a user would grant rules that the user does not hold in a namespace.
//
// Upstream: pkg/registry/rbac/validation ConfirmNoEscalation.
func (p *Policy) Escalation(user *authenticationv1.UserInfo, namespace string, rules []rbacv1.PolicyRule) error {
	held, err := p.RulesFor(user, namespace)
	covered, missing := validation.Covers(held, rules)
	if covered {
		return nil
	}
	texts := map[string]bool{}
	for _, rule := range compact(missing) {
		texts[describe(rule)] = true
	}
	text := fmt.Sprintf("user %q (groups=%q) is attempting to grant RBAC permissions not currently held:\n%s",
		user.Username, user.Groups, strings.Join(slices.Sorted(maps.Keys(texts)), "\n"))
	if err != nil {
		text += fmt.Sprintf("; resolution errors: %v", []error{err})
	}
	return errors.New(text)
}

// compact joins rules that differ only in their verbs, if each is about one resource of one group.
//
// Upstream: pkg/registry/rbac/validation CompactRules.
func compact(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	type key struct{ group, resource, name string }
	var out []rbacv1.PolicyRule
	at := map[key]int{}
	for _, r := range rules {
		if len(r.APIGroups) != 1 || len(r.Resources) != 1 || len(r.ResourceNames) > 1 || len(r.NonResourceURLs) > 0 {
			out = append(out, r)
			continue
		}
		k := key{r.APIGroups[0], r.Resources[0], strings.Join(r.ResourceNames, "")}
		if len(r.ResourceNames) == 1 {
			k.name = "=" + k.name
		}
		i, ok := at[k]
		if !ok {
			at[k] = len(out)
			r.Verbs = slices.Clone(r.Verbs)
			out = append(out, r)
			continue
		}
		out[i].Verbs = append(out[i].Verbs, r.Verbs...)
	}
	return out
}

// describe returns a rule as text.
//
// Upstream: pkg/apis/rbac/v1 CompactString.
func describe(r rbacv1.PolicyRule) string {
	var parts []string
	for _, field := range []struct {
		name   string
		values []string
	}{
		{"APIGroups", r.APIGroups},
		{"Resources", r.Resources},
		{"NonResourceURLs", r.NonResourceURLs},
		{"ResourceNames", r.ResourceNames},
		{"Verbs", r.Verbs},
	} {
		if len(field.values) > 0 {
			parts = append(parts, fmt.Sprintf("%s:%q", field.name, field.values))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
