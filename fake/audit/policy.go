package audit

import (
	"fmt"
	"slices"
	"strings"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"sigs.k8s.io/yaml"
)

// levels are the valid levels.
var levels = []auditinternal.Level{
	auditinternal.LevelNone, auditinternal.LevelMetadata, auditinternal.LevelRequest, auditinternal.LevelRequestResponse,
}

// confidential are the resources of which only metadata is recorded without a policy.
var confidential = []auditinternal.GroupResources{
	{Group: "", Resources: []string{"secrets", "configmaps", "serviceaccounts/token"}},
	{Group: "authentication.k8s.io", Resources: []string{"tokenreviews"}},
}

// newPolicy returns the policy of a level and a file, either of which may be empty.
func newPolicy(level string, file []byte) (policyEvaluator, error) {
	if level == "" && file == nil {
		level = string(auditinternal.LevelMetadata)
	}
	if level != "" && !slices.Contains(levels, auditinternal.Level(level)) {
		return policyEvaluator{}, fmt.Errorf("unknown audit level %q: want %s", level, joinLevels())
	}
	p, warning := &auditinternal.Policy{}, ""
	switch {
	case file != nil:
		var err error
		if p, err = loadPolicy(file); err != nil {
			return policyEvaluator{}, fmt.Errorf("audit policy: %w", err)
		}
		if err := yaml.UnmarshalStrict(file, &auditv1.Policy{}); err != nil {
			warning = strings.TrimPrefix(err.Error(), "error unmarshaling JSON: while decoding JSON: json: ")
		}
	case auditinternal.LevelMetadata.Less(auditinternal.Level(level)):
		p.Rules = append(p.Rules, auditinternal.PolicyRule{Level: auditinternal.LevelMetadata, Resources: confidential})
	}
	if level != "" {
		p.Rules = append(p.Rules, auditinternal.PolicyRule{Level: auditinternal.Level(level)})
	}
	e := newEvaluator(*p)
	e.warning = warning
	return e, nil
}

func joinLevels() string {
	names := make([]string, len(levels))
	for i, level := range levels {
		names[i] = string(level)
	}
	return strings.Join(names, ", ")
}

// anyGroup stands for the group "*" in a loaded policy. It is not a valid group of a resource, as the real
// ones have more labels.
const anyGroup = "any-group"

// loadPolicy reads a policy. The group "*" is replaced, since the libraries of Kubernetes 1.35 refuse it.
func loadPolicy(file []byte) (*auditinternal.Policy, error) {
	var raw map[string]any
	if err := yaml.Unmarshal(file, &raw); err != nil {
		return nil, err
	}
	if replaceAnyGroup(raw) {
		var err error
		if file, err = yaml.Marshal(raw); err != nil {
			return nil, err
		}
	}
	return policy.LoadPolicyFromBytes(file)
}

// replaceAnyGroup replaces the group "*" in the rules, and reports whether there was one.
func replaceAnyGroup(raw map[string]any) (replaced bool) {
	rules, _ := raw["rules"].([]any)
	for _, rule := range rules {
		fields, _ := rule.(map[string]any)
		resources, _ := fields["resources"].([]any)
		for _, resource := range resources {
			if group, _ := resource.(map[string]any); group["group"] == "*" {
				group["group"] = anyGroup
				replaced = true
			}
		}
	}
	return replaced
}

// A policyEvaluator decides what is recorded of a request.
//
// Upstream: k8s.io/apiserver/pkg/audit/policy (v1.36).
type policyEvaluator struct {
	policy   auditinternal.Policy
	fixed    audit.PolicyRuleEvaluator // of the policy if it does not have anyGroup
	anyGroup bool
	warning  string // why the policy was not decoded strictly
}

func newEvaluator(p auditinternal.Policy) policyEvaluator {
	has := slices.ContainsFunc(p.Rules, func(rule auditinternal.PolicyRule) bool {
		return slices.ContainsFunc(rule.Resources, func(r auditinternal.GroupResources) bool { return r.Group == anyGroup })
	})
	return policyEvaluator{policy: p, fixed: policy.NewPolicyRuleEvaluator(p.DeepCopy()), anyGroup: has}
}

// EvaluatePolicyRule returns the configuration of the first rule that matches the request.
func (e policyEvaluator) EvaluatePolicyRule(a authorizer.Attributes) audit.RequestAuditConfig {
	if !e.anyGroup {
		return e.fixed.EvaluatePolicyRule(a)
	}
	p := e.policy.DeepCopy()
	for i := range p.Rules {
		for j := range p.Rules[i].Resources {
			if r := &p.Rules[i].Resources[j]; r.Group == anyGroup {
				r.Group = a.GetAPIGroup()
			}
		}
	}
	return policy.NewPolicyRuleEvaluator(p).EvaluatePolicyRule(a)
}
