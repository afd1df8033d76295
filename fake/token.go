package fake

import (
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
)

// tokenIssuer is the issuer of tokens, and their default audience.
const tokenIssuer = "https://kubernetes.default.svc"

var tokenKind = authenticationv1.SchemeGroupVersion.WithKind("TokenRequest")

// accountActions are the actions on a service account.
var accountActions = map[string]action{"token": {gvk: tokenKind, run: issueToken}}

// issueToken answers a TokenRequest. Nothing is stored.
//
// Differs: a token is not signed, and is the same for the same request at the same time. The Node
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
	if err := s.checkBound(namespace, name, req.Spec.BoundObjectRef); err != nil {
		return actionResult{}, err
	}
	now := s.timestamp()
	req.ObjectMeta = metav1.ObjectMeta{Name: name, Namespace: namespace, UID: account.UID, CreationTimestamp: now}
	expires := metav1.Time{Time: now.Add(time.Duration(seconds) * time.Second)}
	req.Status = authenticationv1.TokenRequestStatus{
		Token:               newToken(req, now.Unix(), expires.Unix()),
		ExpirationTimestamp: expires,
	}
	return actionResult{answer: req}, nil
}

func tokenResource(k schema.GroupVersionKind) schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.Kind}
}

// checkBound returns an error unless the object that a token is bound to exists.
func (s *Server) checkBound(namespace, account string, ref *authenticationv1.BoundObjectReference) error {
	if ref == nil {
		return nil
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
		return apierrors.NewBadRequest(fmt.Sprintf("cannot bind token to object of type %s", gvk.String()))
	}
	obj := s.lookup(s.table(resource), key(at, ref.Name))
	if obj == nil {
		return apierrors.NewNotFound(corev1.Resource(resource), ref.Name)
	}
	if pod, ok := obj.(*corev1.Pod); ok && pod.Spec.ServiceAccountName != account {
		return apierrors.NewBadRequest(fmt.Sprintf(
			"cannot bind token for serviceaccount %q to pod running with different serviceaccount name.", account))
	}
	if ref.UID != "" && ref.UID != obj.GetUID() {
		return apierrors.NewConflict(tokenResource(gvk), ref.Name,
			fmt.Errorf("the UID in the bound object reference (%s) does "+
				"not match the UID in record. The object might have been deleted and then recreated", ref.UID))
	}
	return nil
}

// claims are the claims of a token that clients read.
type claims struct {
	Audience   []string `json:"aud"`
	Expires    int64    `json:"exp"`
	IssuedAt   int64    `json:"iat"`
	Issuer     string   `json:"iss"`
	Kubernetes struct {
		Namespace      string  `json:"namespace"`
		ServiceAccount subject `json:"serviceaccount"`
	} `json:"kubernetes.io"`
	NotBefore int64  `json:"nbf"`
	Subject   string `json:"sub"`
}

type subject struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
}

// newToken returns an unsigned token in the format of a JSON web token.
func newToken(req *authenticationv1.TokenRequest, now, expires int64) string {
	c := claims{
		Audience: req.Spec.Audiences, Expires: expires, IssuedAt: now, Issuer: tokenIssuer, NotBefore: now,
		Subject: "system:serviceaccount:" + req.Namespace + ":" + req.Name,
	}
	c.Kubernetes.Namespace, c.Kubernetes.ServiceAccount = req.Namespace, subject{req.Name, req.UID}
	payload, err := json.Marshal(c)
	if err != nil {
		panic(err) // strings and numbers
	}
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"none"}`)) + "." + encode(payload)
	sum := sha256.Sum256([]byte(text))
	return text + "." + encode(sum[:])
}
