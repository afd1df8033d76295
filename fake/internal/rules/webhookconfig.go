package rules

import (
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// This file has the rules of the configurations of admission webhooks.
//
// Differs: match conditions, combinations of resources and subresources, and paths of services are
// not validated. An update is validated as a creation.
//
// Upstream: pkg/registry/admissionregistration; pkg/apis/admissionregistration, v1 and validation.

const (
	webhookTimeoutMax = 30 // seconds
	webhookURLForm    = "; desired format: https://host[/path]"
)

var (
	webhooksPath   = field.NewPath("webhooks")
	reviewVersions = []string{"v1", "v1beta1"}
)

func defaultValidatingWebhooks(c *admissionv1.ValidatingWebhookConfiguration) {
	for i := range c.Webhooks {
		defaultWebhook(&c.Webhooks[i])
	}
}

func defaultWebhook(h *admissionv1.ValidatingWebhook) {
	setIfNil(&h.FailurePolicy, admissionv1.Fail)
	setIfNil(&h.MatchPolicy, admissionv1.Equivalent)
	setIfNil(&h.NamespaceSelector, metav1.LabelSelector{})
	setIfNil(&h.ObjectSelector, metav1.LabelSelector{})
	setIfNil(&h.TimeoutSeconds, 10)
	if h.ClientConfig.Service != nil {
		setIfNil(&h.ClientConfig.Service.Port, 443)
	}
	for i := range h.Rules {
		setIfNil(&h.Rules[i].Scope, admissionv1.AllScopes)
	}
}

func defaultMutatingWebhooks(c *admissionv1.MutatingWebhookConfiguration) {
	for i := range c.Webhooks {
		h := &c.Webhooks[i]
		common := withoutReinvocation(h)
		defaultWebhook(&common)
		h.FailurePolicy, h.MatchPolicy, h.TimeoutSeconds = common.FailurePolicy, common.MatchPolicy, common.TimeoutSeconds
		h.NamespaceSelector, h.ObjectSelector = common.NamespaceSelector, common.ObjectSelector
		setIfNil(&h.ReinvocationPolicy, admissionv1.NeverReinvocationPolicy)
	}
}

// withoutReinvocation returns what a mutating webhook has in common with validating ones. The result
// shares rules and service with it.
func withoutReinvocation(h *admissionv1.MutatingWebhook) admissionv1.ValidatingWebhook {
	return admissionv1.ValidatingWebhook{
		Name: h.Name, ClientConfig: h.ClientConfig, Rules: h.Rules, FailurePolicy: h.FailurePolicy, MatchPolicy: h.MatchPolicy,
		NamespaceSelector: h.NamespaceSelector, ObjectSelector: h.ObjectSelector, SideEffects: h.SideEffects,
		TimeoutSeconds: h.TimeoutSeconds, AdmissionReviewVersions: h.AdmissionReviewVersions,
		MatchConditions: h.MatchConditions,
	}
}

func prepareValidatingWebhooksCreate(_ metav1.Time, c, _ *admissionv1.ValidatingWebhookConfiguration) {
	c.Generation = 1
}

func prepareValidatingWebhooksUpdate(_ metav1.Time, c, old *admissionv1.ValidatingWebhookConfiguration) {
	if !reflect.DeepEqual(c.Webhooks, old.Webhooks) {
		c.Generation = old.Generation + 1
	}
}

func prepareMutatingWebhooksCreate(_ metav1.Time, c, _ *admissionv1.MutatingWebhookConfiguration) {
	c.Generation = 1
}

func prepareMutatingWebhooksUpdate(_ metav1.Time, c, old *admissionv1.MutatingWebhookConfiguration) {
	if !reflect.DeepEqual(c.Webhooks, old.Webhooks) {
		c.Generation = old.Generation + 1
	}
}

func validateValidatingWebhooks(c, _ *admissionv1.ValidatingWebhookConfiguration) field.ErrorList {
	return validateWebhooks(c.Webhooks, func(int) *admissionv1.ReinvocationPolicyType { return nil })
}

func validateMutatingWebhooks(c, _ *admissionv1.MutatingWebhookConfiguration) field.ErrorList {
	all := make([]admissionv1.ValidatingWebhook, len(c.Webhooks))
	for i := range c.Webhooks {
		all[i] = withoutReinvocation(&c.Webhooks[i])
	}
	return validateWebhooks(all, func(i int) *admissionv1.ReinvocationPolicyType { return c.Webhooks[i].ReinvocationPolicy })
}

// validateWebhooks validates webhooks. reinvocation returns the policy of a mutating one.
func validateWebhooks(
	all []admissionv1.ValidatingWebhook, reinvocation func(i int) *admissionv1.ReinvocationPolicyType,
) field.ErrorList {
	var errs field.ErrorList
	names := map[string]bool{}
	for i := range all {
		h, path := &all[i], webhooksPath.Index(i)
		errs = append(errs, validateWebhook(h, reinvocation(i), path)...)
		errs = append(errs, validateReviewVersions(h.AdmissionReviewVersions, path.Child("admissionReviewVersions"))...)
		if names[h.Name] && h.Name != "" {
			errs = append(errs, field.Duplicate(path.Child("name"), h.Name))
		}
		names[h.Name] = true
	}
	return errs
}

func validateWebhook(h *admissionv1.ValidatingWebhook, again *admissionv1.ReinvocationPolicyType, path *field.Path) field.ErrorList {
	errs := utilvalidation.IsFullyQualifiedName(path.Child("name"), h.Name)
	for i := range h.Rules {
		errs = append(errs, validateWebhookRule(&h.Rules[i], path.Child("rules").Index(i))...)
	}
	if h.FailurePolicy != nil {
		errs = append(errs, oneOf(*h.FailurePolicy, path.Child("failurePolicy"), admissionv1.Fail, admissionv1.Ignore)...)
	}
	if h.MatchPolicy != nil {
		errs = append(errs, oneOf(*h.MatchPolicy, path.Child("matchPolicy"), admissionv1.Equivalent, admissionv1.Exact)...)
	}
	if at := path.Child("sideEffects"); h.SideEffects == nil {
		errs = append(errs, field.Required(at, "must specify one of None, NoneOnDryRun"))
	} else {
		errs = append(errs, oneOf(*h.SideEffects, at, admissionv1.SideEffectClassNone, admissionv1.SideEffectClassNoneOnDryRun)...)
	}
	if s := h.TimeoutSeconds; s != nil && (*s > webhookTimeoutMax || *s < 1) {
		errs = append(errs, field.Invalid(path.Child("timeoutSeconds"), *s, "the timeout value must be between 1 and 30 seconds"))
	}
	options := metav1validation.LabelSelectorValidationOptions{}
	errs = append(errs, metav1validation.ValidateLabelSelector(h.NamespaceSelector, options, path.Child("namespaceSelector"))...)
	errs = append(errs, metav1validation.ValidateLabelSelector(h.ObjectSelector, options, path.Child("objectSelector"))...)
	if again != nil {
		errs = append(errs, oneOf(*again, path.Child("reinvocationPolicy"), admissionv1.IfNeededReinvocationPolicy,
			admissionv1.NeverReinvocationPolicy)...)
	}
	return append(errs, validateWebhookClient(&h.ClientConfig, path.Child("clientConfig"))...)
}

func validateWebhookClient(c *admissionv1.WebhookClientConfig, path *field.Path) field.ErrorList {
	switch {
	case (c.URL == nil) == (c.Service == nil):
		return field.ErrorList{field.Required(path, "exactly one of url or service is required")}
	case c.URL != nil:
		return validateWebhookURL(*c.URL, path.Child("url"))
	}
	path = path.Child("service")
	var errs field.ErrorList
	if c.Service.Namespace == "" { // upstream confuses the two
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	if c.Service.Name == "" {
		errs = append(errs, field.Required(path.Child("namespace"), ""))
	}
	if port := c.Service.Port; port != nil {
		if msgs := utilvalidation.IsValidPortNum(int(*port)); msgs != nil {
			errs = append(errs, field.Invalid(path.Child("port"), *port, "port is not valid: "+strings.Join(msgs, ", ")))
		}
	}
	return errs
}

func validateWebhookURL(text string, path *field.Path) field.ErrorList {
	u, err := url.Parse(text)
	if err != nil {
		return field.ErrorList{field.Required(path, "url must be a valid URL: "+err.Error()+webhookURLForm)}
	}
	var errs field.ErrorList
	invalid := func(bad bool, value, msg string) {
		if bad {
			errs = append(errs, field.Invalid(path, value, msg))
		}
	}
	invalid(u.Scheme != "https", u.Scheme, "'https' is the only allowed URL scheme"+webhookURLForm)
	invalid(u.Host == "", u.Host, "host must be specified"+webhookURLForm)
	invalid(u.User != nil, u.User.String(), "user information is not permitted in the URL")
	invalid(u.Fragment != "", u.Fragment, "fragments are not permitted in the URL")
	invalid(u.RawQuery != "", u.RawQuery, "query parameters are not permitted in the URL")
	return errs
}

// validateWebhookRule validates for which requests a webhook is called.
func validateWebhookRule(r *admissionv1.RuleWithOperations, path *field.Path) field.ErrorList {
	operations := make([]string, len(r.Operations))
	for i, o := range r.Operations {
		operations[i] = string(o)
	}
	errs := validateAlternatives(operations, "operations", path.Child("operations"))
	for i, o := range r.Operations {
		errs = append(errs, oneOf(o, path.Child("operations").Index(i), admissionv1.OperationAll, admissionv1.Connect,
			admissionv1.Create, admissionv1.Delete, admissionv1.Update)...)
	}
	errs = append(errs, validateAlternatives(r.APIGroups, "API groups", path.Child("apiGroups"))...)
	errs = append(errs, validateAlternatives(r.APIVersions, "API versions", path.Child("apiVersions"))...)
	errs = append(errs, requireElements(r.APIVersions, path.Child("apiVersions"))...)
	if len(r.Resources) == 0 {
		errs = append(errs, field.Required(path.Child("resources"), ""))
	}
	errs = append(errs, requireElements(r.Resources, path.Child("resources"))...)
	if r.Scope != nil {
		errs = append(errs, oneOf(*r.Scope, path.Child("scope"), admissionv1.AllScopes, admissionv1.ClusterScope,
			admissionv1.NamespacedScope)...)
	}
	return errs
}

// validateAlternatives validates a list in which "*" must be alone.
func validateAlternatives(values []string, what string, path *field.Path) field.ErrorList {
	switch {
	case len(values) == 0:
		return field.ErrorList{field.Required(path, "")}
	case len(values) > 1 && slices.Contains(values, "*"):
		return field.ErrorList{field.Invalid(path, values, fmt.Sprintf("if '*' is present, must not specify other %s", what))}
	}
	return nil
}

func requireElements(values []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, v := range values {
		if v == "" {
			errs = append(errs, field.Required(path.Index(i), ""))
		}
	}
	return errs
}

func validateReviewVersions(versions []string, path *field.Path) field.ErrorList {
	known := strings.Join(reviewVersions, ", ")
	if len(versions) == 0 {
		return field.ErrorList{field.Required(path, "must specify one of "+known)}
	}
	var errs field.ErrorList
	accepted := false
	for i, v := range versions {
		if slices.Contains(versions[:i], v) {
			errs = append(errs, field.Invalid(path.Index(i), v, "duplicate version"))
			continue
		}
		for _, msg := range utilvalidation.IsDNS1035Label(v) {
			errs = append(errs, field.Invalid(path.Index(i), v, msg))
		}
		accepted = accepted || slices.Contains(reviewVersions, v)
	}
	if !accepted {
		errs = append(errs, field.Invalid(path, versions, "must include at least one of "+known))
	}
	return errs
}
