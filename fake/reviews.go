package fake

import (
	"context"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	typedauthenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
	typedauthorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"

	"github.com/volsim/volsim/sim/trace"
)

// issuer is the default audience of tokens.
const issuer = "https://kubernetes.default.svc"

// A review is a request about a user's identity or permissions. It is created and answered, not
// stored.
type review struct {
	gvk        schema.GroupVersionKind
	namespaced bool
	answer     func(c *Clientset, namespace string, review runtime.Object) error // sets the status of review
}

// resource returns the resource name of a review.
func (r review) resource() string { return strings.ToLower(r.gvk.Kind) + "s" }

// reviews are the reviews that the server answers, in discovery order.
var reviews = []review{
	{authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"), false, answerSelfSubject},
	{authenticationv1.SchemeGroupVersion.WithKind("TokenReview"), false, answerToken},
	{authorizationv1.SchemeGroupVersion.WithKind("LocalSubjectAccessReview"), true, answerLocalAccess},
	{authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview"), false, answerSelfAccess},
	{authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectRulesReview"), false, answerRules},
	{authorizationv1.SchemeGroupVersion.WithKind("SubjectAccessReview"), false, answerAccess},
}

func (r review) describe() APIResource {
	return APIResource{APIResource: metav1.APIResource{
		Name: r.resource(), SingularName: strings.ToLower(r.gvk.Kind), Namespaced: r.namespaced,
		Group: r.gvk.Group, Version: r.gvk.Version, Kind: r.gvk.Kind, Verbs: metav1.Verbs{"create"},
	}}
}

// AsUser returns a client of another user. The default user is system:admin in group
// system:masters.
func (c *Clientset) AsUser(user authenticationv1.UserInfo) *Clientset {
	out := *c
	out.user = &user
	return &out
}

// userInfo returns the client's user.
func (c *Clientset) userInfo() authenticationv1.UserInfo {
	if c.user != nil {
		return *c.user.DeepCopy()
	}
	return authenticationv1.UserInfo{
		Username: "system:admin",
		Groups:   []string{"system:masters", "system:authenticated"},
	}
}

// Review answers a review of authorization.k8s.io/v1 or authentication.k8s.io/v1. Others are
// answered with 404.
//
// Differs: every user may do everything. Every token is accepted as the token of the client's user.
//
// Upstream: pkg/registry/authorization, pkg/registry/authentication.
func (c *Clientset) Review(ctx context.Context, r schema.GroupVersionResource, namespace string,
	obj runtime.Object,
) (runtime.Object, error) {
	i := slices.IndexFunc(reviews, func(v review) bool { return v.gvk.GroupVersion().WithResource(v.resource()) == r })
	if i < 0 || reviews[i].namespaced != (namespace != "") {
		return nil, notFound()
	}
	review := obj.DeepCopyObject()
	request := request{verb: "create", object: r.Resource}
	if namespace != "" {
		request.object += "/" + namespace
	}
	err := c.call(ctx, request, func(writer) trace.Outcome {
		return trace.Outcome{Err: reviews[i].answer(c, namespace, review)}
	})
	if err != nil {
		return nil, err
	}
	return review, nil
}

func answerSelfSubject(c *Clientset, _ string, review runtime.Object) error {
	r := review.(*authenticationv1.SelfSubjectReview)
	r.CreationTimestamp = c.server.timestamp()
	r.Status = authenticationv1.SelfSubjectReviewStatus{UserInfo: c.userInfo()}
	return nil
}

func answerToken(c *Clientset, _ string, review runtime.Object) error {
	r := review.(*authenticationv1.TokenReview)
	if r.Spec.Token == "" {
		return apierrors.NewBadRequest("token is required for TokenReview in authentication")
	}
	r.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: c.userInfo(), Audiences: r.Spec.Audiences}
	if len(r.Status.Audiences) == 0 {
		r.Status.Audiences = []string{issuer}
	}
	return nil
}

func answerSelfAccess(_ *Clientset, _ string, review runtime.Object) error {
	r := review.(*authorizationv1.SelfSubjectAccessReview)
	r.Status = authorizationv1.SubjectAccessReviewStatus{Allowed: true}
	return invalidReview(validateAttributes(r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes))
}

func answerAccess(_ *Clientset, _ string, review runtime.Object) error {
	r := review.(*authorizationv1.SubjectAccessReview)
	r.Status = authorizationv1.SubjectAccessReviewStatus{Allowed: true}
	return invalidReview(validateSubject(&r.Spec))
}

func answerLocalAccess(_ *Clientset, namespace string, review runtime.Object) error {
	r := review.(*authorizationv1.LocalSubjectAccessReview)
	r.Status = authorizationv1.SubjectAccessReviewStatus{Allowed: true}
	if r.Namespace == "" {
		r.Namespace = namespace
	}
	if r.Namespace != namespace {
		return apierrors.NewBadRequest(namespaceMsg)
	}
	errs := validateSubject(&r.Spec)
	if a := r.Spec.ResourceAttributes; a != nil && a.Namespace != namespace {
		errs = append(errs, field.Invalid(specPath.Child("resourceAttributes", "namespace"), a.Namespace,
			"must match metadata.namespace"))
	}
	if a := r.Spec.NonResourceAttributes; a != nil {
		errs = append(errs, field.Invalid(specPath.Child("nonResourceAttributes"), a,
			"disallowed on this kind of request"))
	}
	return invalidReview(errs)
}

func answerRules(_ *Clientset, _ string, review runtime.Object) error {
	r := review.(*authorizationv1.SelfSubjectRulesReview)
	if r.Spec.Namespace == "" {
		return apierrors.NewBadRequest("no namespace on request")
	}
	all := []string{"*"}
	*r = authorizationv1.SelfSubjectRulesReview{Status: authorizationv1.SubjectRulesReviewStatus{
		ResourceRules:    []authorizationv1.ResourceRule{{Verbs: all, APIGroups: all, Resources: all}},
		NonResourceRules: []authorizationv1.NonResourceRule{{Verbs: all, NonResourceURLs: all}},
	}}
	return nil
}

// validateSubject validates a review of a user's permissions.
//
// Upstream: pkg/apis/authorization/validation ValidateSubjectAccessReviewSpec.
func validateSubject(spec *authorizationv1.SubjectAccessReviewSpec) field.ErrorList {
	errs := validateAttributes(spec.ResourceAttributes, spec.NonResourceAttributes)
	if spec.User == "" && len(spec.Groups) == 0 {
		errs = append(errs, field.Invalid(specPath.Child("user"), spec.User,
			"at least one of user or group must be specified"))
	}
	return errs
}

func validateAttributes(resource *authorizationv1.ResourceAttributes,
	other *authorizationv1.NonResourceAttributes,
) field.ErrorList {
	switch {
	case resource != nil && other != nil:
		return field.ErrorList{field.Invalid(specPath.Child("nonResourceAttributes"), other,
			"cannot be specified in combination with resourceAttributes")}
	case resource == nil && other == nil:
		return field.ErrorList{field.Invalid(specPath.Child("resourceAttributes"), other,
			"exactly one of nonResourceAttributes or resourceAttributes must be specified")}
	}
	return nil
}

func invalidReview(errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: authorizationv1.GroupName}, "", errs)
}

// A reviewer is the typed client of one kind of review.
type reviewer[T runtime.Object] struct {
	c         *Clientset
	resource  schema.GroupVersionResource
	namespace string
	empty     T
}

// Create makes a review.
func (r reviewer[T]) Create(ctx context.Context, obj T, _ metav1.CreateOptions) (T, error) {
	answer, err := r.c.Review(ctx, r.resource, r.namespace, obj)
	if err != nil {
		return r.empty.DeepCopyObject().(T), err
	}
	return answer.(T), nil
}

// AuthorizationV1 returns the client of the group authorization.k8s.io.
func (c *Clientset) AuthorizationV1() typedauthorizationv1.AuthorizationV1Interface {
	return authorizationV1{AuthorizationV1Interface: c.base().AuthorizationV1(), c: c}
}

// authorizationV1 is the client of the group authorization.k8s.io. The embedded client answers 404.
type authorizationV1 struct {
	typedauthorizationv1.AuthorizationV1Interface
	c *Clientset
}

func (g authorizationV1) LocalSubjectAccessReviews(namespace string) typedauthorizationv1.LocalSubjectAccessReviewInterface {
	r := authorizationv1.SchemeGroupVersion.WithResource("localsubjectaccessreviews")
	return reviewer[*authorizationv1.LocalSubjectAccessReview]{
		g.c, r, namespace,
		&authorizationv1.LocalSubjectAccessReview{},
	}
}

func (g authorizationV1) SelfSubjectAccessReviews() typedauthorizationv1.SelfSubjectAccessReviewInterface {
	r := authorizationv1.SchemeGroupVersion.WithResource("selfsubjectaccessreviews")
	return reviewer[*authorizationv1.SelfSubjectAccessReview]{g.c, r, "", &authorizationv1.SelfSubjectAccessReview{}}
}

func (g authorizationV1) SelfSubjectRulesReviews() typedauthorizationv1.SelfSubjectRulesReviewInterface {
	r := authorizationv1.SchemeGroupVersion.WithResource("selfsubjectrulesreviews")
	return reviewer[*authorizationv1.SelfSubjectRulesReview]{g.c, r, "", &authorizationv1.SelfSubjectRulesReview{}}
}

func (g authorizationV1) SubjectAccessReviews() typedauthorizationv1.SubjectAccessReviewInterface {
	r := authorizationv1.SchemeGroupVersion.WithResource("subjectaccessreviews")
	return reviewer[*authorizationv1.SubjectAccessReview]{g.c, r, "", &authorizationv1.SubjectAccessReview{}}
}

// AuthenticationV1 returns the client of the group authentication.k8s.io.
func (c *Clientset) AuthenticationV1() typedauthenticationv1.AuthenticationV1Interface {
	return authenticationV1{AuthenticationV1Interface: c.base().AuthenticationV1(), c: c}
}

// authenticationV1 is the client of the group authentication.k8s.io. The embedded client answers
// 404.
type authenticationV1 struct {
	typedauthenticationv1.AuthenticationV1Interface
	c *Clientset
}

func (g authenticationV1) SelfSubjectReviews() typedauthenticationv1.SelfSubjectReviewInterface {
	r := authenticationv1.SchemeGroupVersion.WithResource("selfsubjectreviews")
	return reviewer[*authenticationv1.SelfSubjectReview]{g.c, r, "", &authenticationv1.SelfSubjectReview{}}
}

func (g authenticationV1) TokenReviews() typedauthenticationv1.TokenReviewInterface {
	r := authenticationv1.SchemeGroupVersion.WithResource("tokenreviews")
	return reviewer[*authenticationv1.TokenReview]{g.c, r, "", &authenticationv1.TokenReview{}}
}
