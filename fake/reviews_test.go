package fake_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestReviewsAllowEverything(t *testing.T) {
	_, c := newServer(t)
	ctx := context.Background()
	pods := &authorizationv1.ResourceAttributes{Namespace: "default", Verb: "get", Resource: "pods"}

	self, err := c.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: pods},
	}, metav1.CreateOptions{})
	if err != nil || !self.Status.Allowed || self.Spec.ResourceAttributes.Verb != "get" {
		t.Errorf("self: got %+v, %v", self, err)
	}
	other, err := c.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: "bob", ResourceAttributes: pods},
	}, metav1.CreateOptions{})
	if err != nil || !other.Status.Allowed {
		t.Errorf("other: got %+v, %v", other, err)
	}
	local, err := c.AuthorizationV1().LocalSubjectAccessReviews("default").Create(ctx,
		&authorizationv1.LocalSubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: "bob", ResourceAttributes: pods},
		}, metav1.CreateOptions{})
	if err != nil || !local.Status.Allowed || local.Namespace != "default" {
		t.Errorf("local: got %+v, %v", local, err)
	}
	rules, err := c.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx, &authorizationv1.SelfSubjectRulesReview{
		Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "default"},
	}, metav1.CreateOptions{})
	if err != nil || len(rules.Status.ResourceRules) != 1 || rules.Status.ResourceRules[0].Verbs[0] != "*" {
		t.Errorf("rules: got %+v, %v", rules, err)
	}
}

func TestSelfSubjectReviews(t *testing.T) {
	_, c := newServer(t)
	ctx := context.Background()
	bob := authenticationv1.UserInfo{Username: "bob", Groups: []string{"builders"}}
	who, err := c.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := authenticationv1.UserInfo{
		Username: "system:admin",
		Groups:   []string{"system:masters", "system:authenticated"},
	}
	if diff := cmp.Diff(want, who.Status.UserInfo); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	who, err = c.AsUser(bob).AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(bob, who.Status.UserInfo); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestReviewErrors(t *testing.T) {
	_, c := newServer(t)
	access := authorizationv1.SchemeGroupVersion.WithResource
	attributes := &authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods"}
	tests := []struct {
		name      string
		resource  schema.GroupVersionResource
		namespace string
		body      runtime.Object
		code      int32
		want      string
	}{
		{
			"nothing asked", access("selfsubjectaccessreviews"), "", &authorizationv1.SelfSubjectAccessReview{}, 422,
			`.authorization.k8s.io "" is invalid: spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified`,
		},
		{
			"nobody", access("subjectaccessreviews"), "", &authorizationv1.SubjectAccessReview{
				Spec: authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: attributes},
			}, 422,
			`.authorization.k8s.io "" is invalid: spec.user: Invalid value: "": at least one of user or group must be specified`,
		},
		{
			"other namespace", access("localsubjectaccessreviews"), "default", &authorizationv1.LocalSubjectAccessReview{
				Spec: authorizationv1.SubjectAccessReviewSpec{User: "bob", ResourceAttributes: attributes},
			}, 422,
			`.authorization.k8s.io "" is invalid: spec.resourceAttributes.namespace: Invalid value: "": must match metadata.namespace`,
		},
		{
			"no namespace", access("selfsubjectrulesreviews"), "", &authorizationv1.SelfSubjectRulesReview{}, 400,
			"no namespace on request",
		},
		{
			"no token", authenticationv1.SchemeGroupVersion.WithResource("tokenreviews"), "", &authenticationv1.TokenReview{}, 400,
			"token is required for TokenReview in authentication",
		},
		{
			"no such review", access("reviews"), "", &authorizationv1.SubjectAccessReview{}, 404,
			"the server could not find the requested resource",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := c.Review(context.Background(), tt.resource, tt.namespace, tt.body)
			status, ok := err.(apierrors.APIStatus)
			if !ok || status.Status().Code != tt.code || err.Error() != tt.want {
				t.Errorf("got %v\nwant %d %s", err, tt.code, tt.want)
			}
		})
	}
}

func TestReviewsAreServed(t *testing.T) {
	s, _ := newServer(t)
	got := map[string][]string{}
	for _, r := range s.Resources() {
		if len(r.Verbs) == 1 && r.Verbs[0] == "create" {
			got[r.Group] = append(got[r.Group], r.Name)
		}
	}
	want := map[string][]string{
		"authentication.k8s.io": {"selfsubjectreviews", "tokenreviews"},
		"authorization.k8s.io": {
			"localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews",
			"subjectaccessreviews",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestDiscovery(t *testing.T) {
	s, c := newServer(t)
	old := widgets
	old.Versions = []string{"v1beta1", "v1"}
	s.Install(old)
	d := c.Discovery()

	groups, err := d.ServerGroups()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for _, g := range groups.Groups {
		names[g.Name] = g.PreferredVersion.GroupVersion
	}
	if groups.Groups[0].Name != "" || names[""] != "v1" || names["storage.k8s.io"] != "storage.k8s.io/v1" || names["example.com"] != "example.com/v1" {
		t.Errorf("got %v", names)
	}

	list, err := d.ServerResourcesForGroupVersion("v1")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]metav1.APIResource{}
	for _, r := range list.APIResources {
		got[r.Name] = r
	}
	want := metav1.APIResource{
		Name: "pods/binding", Namespaced: true, Version: "v1", Kind: "Binding", Verbs: metav1.Verbs{"create"},
	}
	if diff := cmp.Diff(want, got["pods/binding"]); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}

	preferred, err := d.ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, list := range preferred {
		for _, r := range list.APIResources {
			found[r.Name]++
			if r.Name == "widgets" && list.GroupVersion != "example.com/v1" {
				t.Errorf("widgets are preferred in %s", list.GroupVersion)
			}
		}
	}
	if found["widgets"] != 1 || found["pods"] != 1 || found["pods/status"] != 0 {
		t.Errorf("got %v", found)
	}
	namespaced, err := d.ServerPreferredNamespacedResources()
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range namespaced {
		for _, r := range list.APIResources {
			if !r.Namespaced {
				t.Errorf("%s is in no namespace", r.Name)
			}
		}
	}
	if v, err := d.ServerVersion(); err != nil || v.GitVersion != "v1.36.3" {
		t.Errorf("got %v, %v, want v1.36.3", v, err)
	}
	_, err = d.ServerResourcesForGroupVersion("certificates.k8s.io/v1")
	expectError(t, err, apierrors.IsNotFound, "the server could not find the requested resource")
}
