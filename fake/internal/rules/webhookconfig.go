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
// Differs: the errors of the expressions of match conditions, which package fake/admission compiles, follow all others.
//
// Upstream: pkg/registry/admissionregistration; pkg/apis/admissionregistration, v1 and validation.

const (
	webhookTimeoutMax = 30 // seconds
	webhookURLForm    = "; desired format: https://host[/path]"
)

var (
	webhooksPath   = field.NewPath("webhooks")
	reviewVersions = []string{"v1", "v1beta1"}

	noSideEffects = []admissionv1.SideEffectClass{admissionv1.SideEffectClassNone, admissionv1.SideEffectClassNoneOnDryRun}
	sideEffects   = append(noSideEffects[:2:2], admissionv1.SideEffectClassSome, admissionv1.SideEffectClassUnknown)
)

func warnValidatingWebhooks(c, _ *admissionv1.ValidatingWebhookConfiguration) []string {
	return warnStaticName(c.Name)
}

func warnMutatingWebhooks(c, _ *admissionv1.MutatingWebhookConfiguration) []string {
	return warnStaticName(c.Name)
}

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

// A webhookTolerance is what an update may keep because the old configuration has it, too.
//
// Upstream: validationOptions.
type webhookTolerance struct {
	conditions, sideEffects, reviewVersions, duplicateNames, labelValues bool
}

// webhookToleranceOf returns what an update of webhooks may keep.
func webhookToleranceOf(now, old []admissionv1.ValidatingWebhook) webhookTolerance {
	t := webhookTolerance{conditions: len(now) == len(old)}
	names := map[string]bool{}
	for i := range old {
		h := &old[i]
		if t.conditions && !reflect.DeepEqual(now[i].MatchConditions, h.MatchConditions) {
			t.conditions = false
		}
		if h.SideEffects == nil || !slices.Contains(noSideEffects, *h.SideEffects) {
			t.sideEffects = true
		}
		if len(h.AdmissionReviewVersions) > 0 && !slices.ContainsFunc(h.AdmissionReviewVersions, isReviewVersion) {
			t.reviewVersions = true
		}
		t.duplicateNames = t.duplicateNames || names[h.Name]
		names[h.Name] = true
		for _, s := range []*metav1.LabelSelector{h.NamespaceSelector, h.ObjectSelector} {
			if len(metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{}, nil)) > 0 {
				t.labelValues = true
			}
		}
	}
	return t
}

func validateValidatingWebhooks(c, old *admissionv1.ValidatingWebhookConfiguration) field.ErrorList {
	var tolerant webhookTolerance
	if old != nil {
		tolerant = webhookToleranceOf(c.Webhooks, old.Webhooks)
	}
	return validateWebhooks(c.Webhooks, tolerant, func(int) *admissionv1.ReinvocationPolicyType { return nil })
}

func validateMutatingWebhooks(c, old *admissionv1.MutatingWebhookConfiguration) field.ErrorList {
	all := commonWebhooks(c.Webhooks)
	var tolerant webhookTolerance
	if old != nil {
		tolerant = webhookToleranceOf(all, commonWebhooks(old.Webhooks))
	}
	return validateWebhooks(all, tolerant, func(i int) *admissionv1.ReinvocationPolicyType { return c.Webhooks[i].ReinvocationPolicy })
}

func commonWebhooks(hooks []admissionv1.MutatingWebhook) []admissionv1.ValidatingWebhook {
	all := make([]admissionv1.ValidatingWebhook, len(hooks))
	for i := range hooks {
		all[i] = withoutReinvocation(&hooks[i])
	}
	return all
}

// validateWebhooks validates webhooks. reinvocation returns the policy of a mutating one.
func validateWebhooks(all []admissionv1.ValidatingWebhook, tolerant webhookTolerance,
	reinvocation func(i int) *admissionv1.ReinvocationPolicyType,
) field.ErrorList {
	var errs field.ErrorList
	names := map[string]bool{}
	for i := range all {
		h, path := &all[i], webhooksPath.Index(i)
		errs = append(errs, validateWebhook(h, tolerant, reinvocation(i), path)...)
		errs = append(errs, validateReviewVersions(h.AdmissionReviewVersions, !tolerant.reviewVersions, path.Child("admissionReviewVersions"))...)
		if !tolerant.duplicateNames && names[h.Name] && h.Name != "" {
			errs = append(errs, field.Duplicate(path.Child("name"), h.Name))
		}
		names[h.Name] = true
	}
	return errs
}

func validateWebhook(h *admissionv1.ValidatingWebhook, tolerant webhookTolerance, again *admissionv1.ReinvocationPolicyType,
	path *field.Path,
) field.ErrorList {
	errs := utilvalidation.IsFullyQualifiedName(path.Child("name"), h.Name)
	for i := range h.Rules {
		errs = append(errs, validateAdmissionRule(&h.Rules[i], path.Child("rules").Index(i))...)
	}
	if h.FailurePolicy != nil {
		errs = append(errs, oneOf(*h.FailurePolicy, path.Child("failurePolicy"), admissionv1.Fail, admissionv1.Ignore)...)
	}
	if h.MatchPolicy != nil {
		errs = append(errs, oneOf(*h.MatchPolicy, path.Child("matchPolicy"), admissionv1.Equivalent, admissionv1.Exact)...)
	}
	effects := noSideEffects
	if tolerant.sideEffects {
		effects = sideEffects
	}
	if at := path.Child("sideEffects"); h.SideEffects == nil {
		errs = append(errs, field.Required(at, "must specify one of "+joined(effects)))
	} else {
		errs = append(errs, oneOf(*h.SideEffects, at, effects...)...)
	}
	if s := h.TimeoutSeconds; s != nil && (*s > webhookTimeoutMax || *s < 1) {
		errs = append(errs, field.Invalid(path.Child("timeoutSeconds"), *s, "the timeout value must be between 1 and 30 seconds"))
	}
	options := metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: tolerant.labelValues}
	errs = append(errs, metav1validation.ValidateLabelSelector(h.NamespaceSelector, options, path.Child("namespaceSelector"))...)
	errs = append(errs, metav1validation.ValidateLabelSelector(h.ObjectSelector, options, path.Child("objectSelector"))...)
	if again != nil {
		errs = append(errs, oneOf(*again, path.Child("reinvocationPolicy"), admissionv1.IfNeededReinvocationPolicy,
			admissionv1.NeverReinvocationPolicy)...)
	}
	errs = append(errs, validateWebhookClient(&h.ClientConfig, path.Child("clientConfig"))...)
	if !tolerant.conditions {
		errs = append(errs, validateMatchConditions(h.MatchConditions, path.Child("matchConditions"))...)
	}
	return errs
}

// joined returns values as a list in a text.
func joined(values []admissionv1.SideEffectClass) string {
	var text []string
	for _, v := range values {
		text = append(text, string(v))
	}
	return strings.Join(text, ", ")
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
	if c.Service.Path != nil {
		errs = append(errs, validateServicePath(*c.Service.Path, path.Child("path"))...)
	}
	return errs
}

// validateServicePath validates the path of a webhook in a service: segments that are names.
//
// Upstream: k8s.io/apiserver/pkg/util/webhook ValidateWebhookService.
func validateServicePath(text string, path *field.Path) field.ErrorList {
	switch text {
	case "", "/":
		return nil
	case "//":
		return field.ErrorList{field.Invalid(path, text, "segment[0] may not be empty")}
	}
	var errs field.ErrorList
	if !strings.HasPrefix(text, "/") {
		errs = append(errs, field.Invalid(path, text, "must start with a '/'"))
	}
	for i, segment := range strings.Split(strings.TrimSuffix(text[1:], "/"), "/") {
		if segment == "" {
			errs = append(errs, field.Invalid(path, text, fmt.Sprintf("segment[%d] may not be empty", i)))
			continue
		}
		for _, msg := range utilvalidation.IsDNS1123Subdomain(segment) {
			errs = append(errs, field.Invalid(path, text, fmt.Sprintf("segment[%d]: %v", i, msg)))
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

func isReviewVersion(v string) bool { return slices.Contains(reviewVersions, v) }

// validateReviewVersions validates versions of reviews, of which the server must know one unless known is false.
func validateReviewVersions(versions []string, known bool, path *field.Path) field.ErrorList {
	all := strings.Join(reviewVersions, ", ")
	if len(versions) == 0 {
		return field.ErrorList{field.Required(path, "must specify one of "+all)}
	}
	var errs field.ErrorList
	for i, v := range versions {
		if slices.Contains(versions[:i], v) {
			errs = append(errs, field.Invalid(path.Index(i), v, "duplicate version"))
			continue
		}
		for _, msg := range utilvalidation.IsDNS1035Label(v) {
			errs = append(errs, field.Invalid(path.Index(i), v, msg))
		}
	}
	if known && !slices.ContainsFunc(versions, isReviewVersion) {
		errs = append(errs, field.Invalid(path, versions, "must include at least one of "+all))
	}
	return errs
}
