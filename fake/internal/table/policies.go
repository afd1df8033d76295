package table

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	admissionv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The columns of admission policies and their bindings.
//
// Upstream: pkg/printers/internalversion/printers.go.

// policyColumns returns the columns of policies, which count what they do.
func policyColumns(count, about string) []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		name, number(count, about),
		text("ParamKind", "ParamKind specifies the kind of resources used to parameterize this policy"), age,
	}
}

var policyBindingColumns = []metav1.TableColumnDefinition{
	name,
	text("PolicyName", "PolicyName indicates the policy definition which the policy binding binded to"),
	text("ParamRef", "ParamRef indicates the param resource which sets the configuration param"),
	age,
}

func policyCells(p *admissionv1.ValidatingAdmissionPolicy, now clock) []any {
	return []any{p.Name, int64(len(p.Spec.Validations)), paramKindCell(p.Spec.ParamKind), now.since(p.CreationTimestamp)}
}

func mutatingPolicyCells(p *admissionv1beta1.MutatingAdmissionPolicy, now clock) []any {
	kind := paramKindCell((*admissionv1.ParamKind)(p.Spec.ParamKind))
	return []any{p.Name, int64(len(p.Spec.Mutations)), kind, now.since(p.CreationTimestamp)}
}

func policyBindingCells(b *admissionv1.ValidatingAdmissionPolicyBinding, now clock) []any {
	params := unset
	if r := b.Spec.ParamRef; r != nil {
		params = paramsCell(r.Namespace, r.Name, r.Selector)
	}
	return []any{b.Name, b.Spec.PolicyName, params, now.since(b.CreationTimestamp)}
}

func mutatingBindingCells(b *admissionv1beta1.MutatingAdmissionPolicyBinding, now clock) []any {
	params := unset
	if r := b.Spec.ParamRef; r != nil {
		params = paramsCell(r.Namespace, r.Name, r.Selector)
	}
	return []any{b.Name, b.Spec.PolicyName, params, now.since(b.CreationTimestamp)}
}

func paramKindCell(k *admissionv1.ParamKind) string {
	if k == nil {
		return unset
	}
	return k.APIVersion + "/" + k.Kind
}

// paramsCell returns the parameters of a binding: a name with its namespace, "*" if there is none, or a selector.
func paramsCell(namespace, name string, selector *metav1.LabelSelector) string {
	switch {
	case name != "" && namespace != "":
		return namespace + "/" + name
	case name != "":
		return "*/" + name
	case selector != nil:
		return selector.String()
	}
	return unset
}
