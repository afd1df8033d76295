package fake

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake/internal/rules"
	"github.com/volsim/volsim/internal/rbac"
)

// tokenIssuer is the issuer of tokens, and their default audience.
const tokenIssuer = "https://kubernetes.default.svc"

var tokenKind = authenticationv1.SchemeGroupVersion.WithKind("TokenRequest")

// accountActions are the actions on a service account.
var accountActions = map[string]action{"token": {gvk: tokenKind, run: issueToken}}

// issueToken answers a TokenRequest. Nothing is stored.
//
// Differs: a token is signed with HMAC, and is the same for the same request at the same time. The Node
// of a token that is bound to a Pod need not exist.
//
// Upstream: pkg/registry/core/serviceaccount/storage TokenREST.Create.
func issueToken(s writer, namespace, name string, body runtime.Object, _ bool) (actionResult, error) {
	req := body.(*authenticationv1.TokenRequest).DeepCopy()
	if req.Name != "" && req.Name != name {
		return actionResult{}, apierrors.NewInvalid(tokenKind.GroupKind(), name, field.ErrorList{
			field.Invalid(metaPath.Child("name"), req.Name, "must match the service account name if specified"),
		})
	}
	if req.Namespace != "" && req.Namespace != namespace {
		return actionResult{}, apierrors.NewBadRequest(namespaceMsg)
	}
	k := s.table("serviceaccounts").kind
	account, ok := s.lookup(s.tableOf(k), key(namespace, name)).(*corev1.ServiceAccount)
	if !ok {
		return actionResult{}, apierrors.NewNotFound(k.groupResource(), name)
	}
	if req.UID != "" && req.UID != account.UID {
		return actionResult{}, apierrors.NewConflict(tokenResource(tokenKind), name, fmt.Errorf(
			"the UID in the token request (%s) does not match the UID of the service account (%s)", req.UID,
			account.UID))
	}
	if len(req.Spec.Audiences) == 0 {
		req.Spec.Audiences = []string{tokenIssuer}
	}
	if req.Spec.ExpirationSeconds == nil {
		req.Spec.ExpirationSeconds = ptr.To[int64](rules.TokenSecondsDefault)
	}
	seconds := *req.Spec.ExpirationSeconds
	if errs := rules.ValidateTokenSeconds(seconds, specPath.Child("expirationSeconds")); len(errs) > 0 {
		return actionResult{}, apierrors.NewInvalid(tokenKind.GroupKind(), "", errs)
	}
	bound, err := s.boundTo(namespace, name, req.Spec.BoundObjectRef)
	if err != nil {
		return actionResult{}, err
	}
	now := s.timestamp()
	req.ObjectMeta = metav1.ObjectMeta{Name: name, Namespace: namespace, UID: account.UID, CreationTimestamp: now}
	expires := metav1.Time{Time: now.Add(time.Duration(seconds) * time.Second)}
	req.Status = authenticationv1.TokenRequestStatus{
		Token:               s.newToken(req, bound, now.Unix(), expires.Unix()),
		ExpirationTimestamp: expires,
	}
	return actionResult{answer: req}, nil
}

func tokenResource(k schema.GroupVersionKind) schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.Kind}
}

// boundTo returns the object that a token is bound to; nil: to none.
func (s *Server) boundTo(namespace, account string, ref *authenticationv1.BoundObjectReference) (Object, error) {
	if ref == nil {
		return nil, nil
	}
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	at, resource := namespace, ""
	switch gvk.GroupKind() {
	case schema.GroupKind{Kind: "Pod"}:
		resource = "pods"
	case schema.GroupKind{Kind: "Secret"}:
		resource = "secrets"
	case schema.GroupKind{Kind: "Node"}:
		resource, at = "nodes", ""
	default:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("cannot bind token to object of type %s", gvk.String()))
	}
	obj := s.lookup(s.table(resource), key(at, ref.Name))
	if obj == nil {
		return nil, apierrors.NewNotFound(corev1.Resource(resource), ref.Name)
	}
	if pod, ok := obj.(*corev1.Pod); ok && pod.Spec.ServiceAccountName != account {
		return nil, apierrors.NewBadRequest(fmt.Sprintf(
			"cannot bind token for serviceaccount %q to pod running with different serviceaccount name.", account))
	}
	if ref.UID != "" && ref.UID != obj.GetUID() {
		return nil, apierrors.NewConflict(tokenResource(gvk), ref.Name,
			fmt.Errorf("the UID in the bound object reference (%s) does "+
				"not match the UID in record. The object might have been deleted and then recreated", ref.UID))
	}
	return obj, nil
}

// claims are the claims of a token.
//
// Upstream: pkg/serviceaccount Claims.
type claims struct {
	Audience   []string `json:"aud"`
	Expires    int64    `json:"exp"`
	IssuedAt   int64    `json:"iat"`
	Issuer     string   `json:"iss"`
	ID         string   `json:"jti"`
	Kubernetes struct {
		Namespace      string   `json:"namespace"`
		Node           *subject `json:"node,omitempty"`
		Pod            *subject `json:"pod,omitempty"`
		Secret         *subject `json:"secret,omitempty"`
		ServiceAccount subject  `json:"serviceaccount"`
	} `json:"kubernetes.io"`
	NotBefore int64  `json:"nbf"`
	Subject   string `json:"sub"`
}

type subject struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
}

func subjectOf(obj Object) *subject { return &subject{obj.GetName(), obj.GetUID()} }

// tokenHeader is the first part of every token.
var tokenHeader = base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256"}`))

// newToken returns a token in the format of a JSON web token.
func (s *Server) newToken(req *authenticationv1.TokenRequest, bound Object, now, expires int64) string {
	c := claims{
		Audience: req.Spec.Audiences, Expires: expires, IssuedAt: now, Issuer: tokenIssuer, NotBefore: now,
		Subject: rbac.AccountName(req.Namespace, req.Name),
	}
	c.Kubernetes.Namespace, c.Kubernetes.ServiceAccount = req.Namespace, subject{req.Name, req.UID}
	switch bound := bound.(type) {
	case *corev1.Pod:
		c.Kubernetes.Pod = subjectOf(bound)
		if node := s.lookup(s.table("nodes"), bound.Spec.NodeName); node != nil {
			c.Kubernetes.Node = subjectOf(node)
		}
	case *corev1.Secret:
		c.Kubernetes.Secret = subjectOf(bound)
	case *corev1.Node:
		c.Kubernetes.Node = subjectOf(bound)
	}
	c.ID = credentialOf(c)
	return s.signed(tokenHeader + "." + base64.RawURLEncoding.EncodeToString(encodeClaims(c)))
}

// signed returns text with its signature.
func (s *Server) signed(text string) string {
	mac := hmac.New(sha256.New, s.tokenKey)
	mac.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// credentialOf returns a UUID of claims, the same for the same ones.
func credentialOf(c claims) string {
	sum := sha256.Sum256(encodeClaims(c))
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

func encodeClaims(c claims) []byte {
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // strings and numbers
	}
	return text
}
