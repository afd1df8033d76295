package crd

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/util/webhook"

	"github.com/volsim/volsim/fake"
)

// usedNames are the names that the other definitions of a group use.
type usedNames struct {
	resources map[string]bool
	kinds     map[string]bool
}

func (r *registry) namesUsedByOthers(of *fake.CustomObject) usedNames {
	t := usedNames{resources: map[string]bool{}, kinds: map[string]bool{}}
	for _, other := range r.others(of) {
		names := namesIn(other, "status", "acceptedNames")
		for _, n := range append([]string{names.Plural, names.Singular}, names.ShortNames...) {
			t.resources[n] = true
		}
		t.kinds[names.Kind], t.kinds[names.ListKind] = true, true
	}
	return t
}

// others returns the other definitions of a group.
func (r *registry) others(of *fake.CustomObject) []*fake.CustomObject {
	group, _, _ := unstructured.NestedString(of.Content, "spec", "group")
	var all []*fake.CustomObject
	for _, obj := range r.server.List(definitionsResource) {
		other := obj.(*fake.CustomObject)
		if g, _, _ := unstructured.NestedString(other.Content, "spec", "group"); g == group && other.Name != of.Name {
			all = append(all, other)
		}
	}
	return all
}

// namesIn reads the names at a path of a definition.
func namesIn(obj *fake.CustomObject, path ...string) apiextensionsv1.CustomResourceDefinitionNames {
	var names apiextensionsv1.CustomResourceDefinitionNames
	if at, _, _ := unstructured.NestedFieldNoCopy(obj.Content, path...); at != nil {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(at.(map[string]any), &names); err != nil {
			panic(fmt.Sprintf("crd: decode stored definition: %v", err))
		}
	}
	return names
}

// accept accepts the names that a definition requests as far as they are free, and sets the
// conditions.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/controller/status NamingConditionController.
func accept(crd *apiextensionsv1.CustomResourceDefinition, t usedNames, now metav1.Time) {
	if equality.Semantic.DeepEqual(crd.Spec.Names, crd.Status.AcceptedNames) {
		return
	}
	conflict := t.assign(&crd.Status.AcceptedNames, crd.Spec.Names)
	accepted := apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue,
		Reason: "NoConflicts", Message: "no conflicts found",
	}
	if conflict.reason != "" {
		accepted.Status, accepted.Reason, accepted.Message = apiextensionsv1.ConditionFalse, conflict.reason, conflict.err.Error()
	}
	setCondition(crd, now, accepted)
	if conflict.reason != "" && !isTrue(crd, apiextensionsv1.Established) {
		setCondition(crd, now, apiextensionsv1.CustomResourceDefinitionCondition{
			Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionFalse,
			Reason: "NotAccepted", Message: "not all names are accepted",
		})
	}
}

const invalidCABundleReason = "InvalidCABundle"

// establish sets the condition Established of a definition whose names have been accepted.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/controller/establish EstablishingController.sync.
func establish(crd *apiextensionsv1.CustomResourceDefinition, now metav1.Time) {
	if !isTrue(crd, apiextensionsv1.NamesAccepted) || isTrue(crd, apiextensionsv1.Established) {
		return
	}
	established := apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue,
		Reason: "InitialNamesAccepted", Message: "the initial names have been accepted",
	}
	if c := crd.Spec.Conversion; c != nil && c.Webhook != nil && c.Webhook.ClientConfig != nil &&
		len(webhook.ValidateCABundle(field.NewPath(""), c.Webhook.ClientConfig.CABundle)) > 0 {
		established.Status, established.Reason = apiextensionsv1.ConditionFalse, invalidCABundleReason
		established.Message = "The conversion webhook CABundle is invalid"
	}
	setCondition(crd, now, established)
}

// conflict is the last conflict among a definition's names.
type conflict struct {
	reason string
	err    error
}

// assign copies the names that are free from wants to has.
func (t usedNames) assign(
	has *apiextensionsv1.CustomResourceDefinitionNames, wants apiextensionsv1.CustomResourceDefinitionNames,
) conflict {
	var c conflict
	for _, n := range []struct {
		has   *string
		wants string
		used  map[string]bool
		why   string
	}{
		{&has.Plural, wants.Plural, t.resources, "PluralConflict"},
		{&has.Singular, wants.Singular, t.resources, "SingularConflict"},
		{nil, "", nil, "ShortNamesConflict"},
		{&has.Kind, wants.Kind, t.kinds, "KindConflict"},
		{&has.ListKind, wants.ListKind, t.kinds, "ListKindConflict"},
	} {
		var err error
		switch {
		case n.has == nil:
			err = t.assignShortNames(has, wants.ShortNames)
		case *n.has != n.wants && n.used[n.wants]:
			err = inUse(n.wants)
		default:
			*n.has = n.wants
		}
		if err != nil {
			c = conflict{n.why, err}
		}
	}
	has.Categories = wants.Categories
	return c
}

func (t usedNames) assignShortNames(has *apiextensionsv1.CustomResourceDefinitionNames, wants []string) error {
	var errs []error
	for _, n := range wants {
		if !slices.Contains(has.ShortNames, n) && t.resources[n] {
			errs = append(errs, inUse(n))
		}
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		return errors.New(err.Error())
	}
	has.ShortNames = wants
	return nil
}

func inUse(name string) error { return fmt.Errorf("%q is already in use", name) }

// acceptFreedNames lets the other definitions of a group accept the names that this one no longer
// uses.
func (r *registry) acceptFreedNames(freed *fake.CustomObject) {
	for _, other := range r.others(freed) {
		if equality.Semantic.DeepEqual(namesIn(other, "spec", "names"), namesIn(other, "status", "acceptedNames")) {
			continue
		}
		r.server.UpdateStored(definitionsResource, "", other.Name, func(stored fake.Object) fake.Object {
			previous := mustRead(stored.(*fake.CustomObject))
			updated := previous.DeepCopy()
			accept(updated, r.namesUsedByOthers(stored.(*fake.CustomObject)), r.server.Timestamp())
			establish(updated, r.server.Timestamp())
			if equality.Semantic.DeepEqual(previous.Status, updated.Status) {
				return nil
			}
			return withDefinition(stored, updated)
		})
	}
}

// withDefinition returns a copy of a stored definition with the status and finalizers of crd.
func withDefinition(stored fake.Object, crd *apiextensionsv1.CustomResourceDefinition) *fake.CustomObject {
	out := stored.DeepCopyObject().(*fake.CustomObject)
	write(out, crd)
	out.Finalizers = crd.Finalizers
	return out
}

// approve sets the approval condition of a definition in a group of the Kubernetes community.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/controller/apiapproval calculateCondition.
func approve(crd *apiextensionsv1.CustomResourceDefinition, now metav1.Time) {
	if !apihelpers.IsProtectedCommunityGroup(crd.Spec.Group) {
		return
	}
	c := apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.KubernetesAPIApprovalPolicyConformant, Status: apiextensionsv1.ConditionFalse,
	}
	state, message := apihelpers.GetAPIApprovalState(crd.Annotations)
	c.Message = message
	switch state {
	case apihelpers.APIApprovalInvalid:
		c.Reason = "InvalidAnnotation"
	case apihelpers.APIApprovalMissing:
		c.Reason = "MissingAnnotation"
	case apihelpers.APIApproved:
		c.Status, c.Reason = apiextensionsv1.ConditionTrue, "ApprovedAnnotation"
	case apihelpers.APIApprovalBypassed:
		c.Reason = "UnapprovedAnnotation"
	default:
		c.Status, c.Reason = apiextensionsv1.ConditionUnknown, "UnknownAnnotation"
	}
	setCondition(crd, now, c)
}

// setCondition sets a condition. The transition time is now if the status changes.
func setCondition(
	crd *apiextensionsv1.CustomResourceDefinition, now metav1.Time, c apiextensionsv1.CustomResourceDefinitionCondition,
) {
	c.LastTransitionTime = now
	existing := apihelpers.FindCRDCondition(crd, c.Type)
	if existing == nil {
		crd.Status.Conditions = append(crd.Status.Conditions, c)
		return
	}
	if existing.Status == c.Status {
		c.LastTransitionTime = existing.LastTransitionTime
	}
	*existing = c
}

func isTrue(
	crd *apiextensionsv1.CustomResourceDefinition, what apiextensionsv1.CustomResourceDefinitionConditionType,
) bool {
	return apihelpers.IsCRDConditionTrue(crd, what)
}
