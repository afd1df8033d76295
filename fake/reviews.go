package fake

import (
	"context"
	"errors"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	typedauthenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
	typedauthorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"

	"github.com/volsim/volsim/internal/rbac"
	"github.com/volsim/volsim/sim/trace"
)

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
	out := c.clone()
	out.user = &user
	return out
}

// User returns the client's user.
func (c *Clientset) User() authenticationv1.UserInfo {
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
// Without Config.RBAC every user may do everything.
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
		err := c.Authorize(authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "create", Group: r.Group, Resource: r.Resource, Namespace: namespace,
		}})
		if err == nil {
			err = reviews[i].answer(c, namespace, review)
		}
		return trace.Outcome{Err: err}
	})
	if err != nil {
		return nil, err
	}
	return review, nil
}

func answerSelfSubject(c *Clientset, _ string, review runtime.Object) error {
	r := review.(*authenticationv1.SelfSubjectReview)
	r.CreationTimestamp = c.server.timestamp()
	r.Status = authenticationv1.SelfSubjectReviewStatus{UserInfo: c.User()}
	return nil
}

func answerToken(c *Clientset, _ string, review runtime.Object) error {
	r := review.(*authenticationv1.TokenReview)
	if r.Spec.Token == "" {
		return apierrors.NewBadRequest("token is required for TokenReview in authentication")
	}
	audiences := r.Spec.Audiences
	if len(audiences) == 0 {
		audiences = []string{tokenIssuer}
	}
	user, matched, err := c.server.AuthenticateToken(r.Spec.Token, audiences...)
	if err != nil {
		r.Status = authenticationv1.TokenReviewStatus{Error: err.Error()}
		return nil
	}
	r.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: user, Audiences: matched}
	return nil
}

func answerSelfAccess(c *Clientset, _ string, review runtime.Object) error {
	r := review.(*authorizationv1.SelfSubjectAccessReview)
	if errs := validateAttributes(r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes); len(errs) > 0 {
		return invalidReview(errs)
	}
	user := c.User()
	r.Status = c.server.reviewed(&user, r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes)
	return nil
}

func answerAccess(c *Clientset, _ string, review runtime.Object) error {
	r := review.(*authorizationv1.SubjectAccessReview)
	if errs := validateSubject(&r.Spec); len(errs) > 0 {
		return invalidReview(errs)
	}
	r.Status = c.server.reviewedFor(&r.Spec)
	return nil
}

// reviewed is the status of a review of a user's access to a resource or path.
func (s *Server) reviewed(user *authenticationv1.UserInfo, resource *authorizationv1.ResourceAttributes,
	path *authorizationv1.NonResourceAttributes,
) authorizationv1.SubjectAccessReviewStatus {
	if s.access == nil {
		return authorizationv1.SubjectAccessReviewStatus{Allowed: true}
	}
	allowed, reason := s.decide(attributesOf(user, resource, path))
	return authorizationv1.SubjectAccessReviewStatus{Allowed: allowed, Reason: reason}
}

// reviewedFor is reviewed for the user in a review.
func (s *Server) reviewedFor(spec *authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus {
	user := &authenticationv1.UserInfo{Username: spec.User, Groups: spec.Groups, UID: spec.UID}
	return s.reviewed(user, spec.ResourceAttributes, spec.NonResourceAttributes)
}

func answerLocalAccess(c *Clientset, namespace string, review runtime.Object) error {
	r := review.(*authorizationv1.LocalSubjectAccessReview)
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
	if len(errs) == 0 {
		r.Status = c.server.reviewedFor(&r.Spec)
	}
	return invalidReview(errs)
}

func answerRules(c *Clientset, _ string, review runtime.Object) error {
	r := review.(*authorizationv1.SelfSubjectRulesReview)
	if r.Spec.Namespace == "" {
		return apierrors.NewBadRequest("no namespace on request")
	}
	user, namespace := c.User(), r.Spec.Namespace
	*r = authorizationv1.SelfSubjectRulesReview{}
	rules, err := rbac.Everything, error(nil)
	if c.server.access != nil {
		rules, err = c.server.policy().RulesFor(&user, namespace)
	}
	var errs []error
	if _, isNode := nodeOf(&user); isNode && c.server.access != nil {
		r.Status.Incomplete, errs = true, append(errs, errors.New("node authorizer does not support user rule resolution"))
	}
	if err != nil {
		errs = append(errs, err)
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		r.Status.EvaluationError = err.Error()
	}
	r.Status.ResourceRules, r.Status.NonResourceRules = rulesInReview(rules)
	return nil
}

// rulesInReview returns rules in the form of a review.
//
// Upstream: plugin/pkg/auth/authorizer/rbac RBACAuthorizer.RulesFor.
func rulesInReview(rules []rbacv1.PolicyRule) ([]authorizationv1.ResourceRule, []authorizationv1.NonResourceRule) {
	resources, paths := []authorizationv1.ResourceRule{}, []authorizationv1.NonResourceRule{}
	for _, rule := range rules {
		if len(rule.Resources) > 0 {
			resources = append(resources, authorizationv1.ResourceRule{
				Verbs: rule.Verbs, APIGroups: rule.APIGroups, Resources: rule.Resources, ResourceNames: rule.ResourceNames,
			})
		}
		if len(rule.NonResourceURLs) > 0 {
			paths = append(paths, authorizationv1.NonResourceRule{Verbs: rule.Verbs, NonResourceURLs: rule.NonResourceURLs})
		}
	}
	return resources, paths
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
