package fake

import (
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	admissionv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/volsim/volsim/internal/rbac"
)

// This file has what users must be allowed to read before they may write admission policies with parameters, which read
// it for them.
//
// Differs: it is checked before validation, so an invalid policy may be refused for this reason only. Upstream checks
// valid ones.
//
// Upstream: pkg/registry/admissionregistration, the files authz.go.

// checkParams returns an error if the user may not read the parameters of a policy or a binding that is created (old is
// nil) or changed.
func (s writer) checkParams(k *kind, obj, old Object) error {
	var err error
	path := "paramRef"
	switch o := obj.(type) {
	case *admissionv1.ValidatingAdmissionPolicy:
		was, _ := old.(*admissionv1.ValidatingAdmissionPolicy)
		if path = "paramKind"; was == nil || !equality.Semantic.DeepEqual(was.Spec.ParamKind, o.Spec.ParamKind) {
			err = s.mayReadKind(o.Spec.ParamKind)
		}
	case *admissionv1beta1.MutatingAdmissionPolicy:
		was, _ := old.(*admissionv1beta1.MutatingAdmissionPolicy)
		if path = "paramKind"; was == nil || !equality.Semantic.DeepEqual(was.Spec.ParamKind, o.Spec.ParamKind) {
			err = s.mayReadKind((*admissionv1.ParamKind)(o.Spec.ParamKind))
		}
	case *admissionv1.ValidatingAdmissionPolicyBinding: // upstream compares pointers, so each update is checked
		if r := o.Spec.ParamRef; r != nil {
			err = s.mayReadParams("validatingadmissionpolicies", o.Spec.PolicyName, r.Namespace, r.Name)
		}
	case *admissionv1beta1.MutatingAdmissionPolicyBinding:
		if r := o.Spec.ParamRef; r != nil {
			err = s.mayReadParams("mutatingadmissionpolicies", o.Spec.PolicyName, r.Namespace, r.Name)
		}
	}
	if err != nil {
		return invalid(k, obj.GetName(), field.ErrorList{field.Forbidden(specPath.Child(path), err.Error())})
	}
	return nil
}

// mayReadKind returns an error unless the user may get all objects of a policy's kind of parameters.
func (s writer) mayReadKind(of *admissionv1.ParamKind) error {
	if of == nil {
		return nil
	}
	group, resource, _ := s.paramResource(of)
	a := rbac.Attributes{User: s.user, Verb: "get", Group: group, Resource: resource, Namespace: "*", Name: "*"}
	if ok, _ := s.decide(a); ok {
		return nil
	}
	return fmt.Errorf(`user %s must have "get" permission on all objects of the referenced paramKind (kind=%s, apiVersion=%s)`,
		s.userText(), of.Kind, of.APIVersion)
}

// mayReadParams returns an error unless the user may read the objects that a binding refers to. name is "" if it selects
// several.
func (s writer) mayReadParams(policies, policy, namespace, name string) error {
	a := rbac.Attributes{User: s.user, Verb: "get", Group: "*", Resource: "*", Namespace: namespace, Name: name}
	if name == "" {
		a.Verb = "list"
	}
	why := fmt.Sprintf("unable to get policy %s", policy)
	if stored, ok := s.Get(policies, "", policy); ok {
		why = ""
		if of := paramKindOf(stored); of != nil {
			var err error
			if a.Group, a.Resource, err = s.paramResource(of); err != nil {
				why = fmt.Sprintf("unable to resolve paramKind %v", of)
			}
		}
	}
	if ok, _ := s.decide(a); ok {
		return nil
	}
	if why != "" {
		return fmt.Errorf(`%s to determine minimum required permissions and user %s does not have "%s" permission for all groups, versions and resources`,
			why, s.userText(), a.Verb)
	}
	return fmt.Errorf(`user %s does not have "%s" permission on the object referenced by paramRef`, s.userText(), a.Verb)
}

func paramKindOf(policy Object) *admissionv1.ParamKind {
	if p, ok := policy.(*admissionv1beta1.MutatingAdmissionPolicy); ok {
		return (*admissionv1.ParamKind)(p.Spec.ParamKind)
	}
	return policy.(*admissionv1.ValidatingAdmissionPolicy).Spec.ParamKind
}

// paramResource returns the group and the resource of a kind of parameters, the first by name, "*" for one that is not
// served.
func (s *Server) paramResource(of *admissionv1.ParamKind) (group, resource string, err error) {
	gv, err := schema.ParseGroupVersion(of.APIVersion)
	if err != nil {
		return "*", "*", err
	}
	for served, k := range s.catalog.Load().served {
		if served.GroupVersion() == gv && k.gvk.Kind == of.Kind && (resource == "" || k.resource < resource) {
			resource = k.resource
		}
	}
	if resource != "" {
		return gv.Group, resource, nil
	}
	return gv.Group, "*", fmt.Errorf("no resource of %s in %s", of.Kind, gv)
}

// userText returns the user as Go prints upstream's.
func (s writer) userText() string {
	return fmt.Sprintf("&{%s %s %v %v}", s.user.Username, s.user.UID, s.user.Groups, s.user.Extra)
}
