package csi

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// tokensKey is the key of the pod's service account tokens in the volume's attributes, or in the
// secrets.
const tokensKey = "csi.storage.k8s.io/serviceAccount.tokens"

// A token is replaced when less than this share of its lifetime is left, or when it is this old.
//
// Upstream: pkg/kubelet/token (v1.36).
const (
	tokenShareLeft = 5 // a fifth
	tokenAgeMax    = 24 * time.Hour
)

// A tokenKey identifies a token.
type tokenKey struct {
	namespace, account, pod string
	audience                string
	seconds                 int64 // 0: chosen by the API server
}

// tokens are the service account tokens that drivers received for pods.
type tokens map[types.UID]map[tokenKey]*authenticationv1.TokenRequest

// podTokens returns the tokens of the pod's service account that the driver requests: one value
// under tokensKey, or none. driver is its CSIDriver object.
//
// Upstream: pkg/volume/csi csiMountMgr.podServiceAccountTokenAttrs (v1.36).
func (p *Plugin) podTokens(
	ctx context.Context, driver *storagev1.CSIDriver, pod *corev1.Pod,
) (map[string]string, error) {
	if driver == nil || len(driver.Spec.TokenRequests) == 0 {
		return nil, nil
	}
	all := map[string]authenticationv1.TokenRequestStatus{}
	for _, request := range driver.Spec.TokenRequests {
		token, err := p.token(ctx, pod, request)
		if err != nil {
			return nil, err
		}
		all[request.Audience] = token.Status
	}
	text, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	return map[string]string{tokensKey: string(text)}, nil
}

// token returns one token of the pod's service account: the cached one if it is recent, or a new
// one.
//
// Differs: upstream adds a random jitter of up to ten seconds to the time of replacement.
//
// Upstream: pkg/kubelet/token Manager.GetServiceAccountToken (v1.36).
func (p *Plugin) token(
	ctx context.Context, pod *corev1.Pod, request storagev1.TokenRequest,
) (*authenticationv1.TokenRequest, error) {
	key := tokenKey{
		namespace: pod.Namespace, account: pod.Spec.ServiceAccountName, pod: pod.Name,
		audience: request.Audience,
	}
	if request.ExpirationSeconds != nil {
		key.seconds = *request.ExpirationSeconds
	}
	now := p.cfg.Process.Now()
	old := p.tokens[pod.UID][key]
	if old != nil && !needsRefresh(old, now) {
		return old, nil
	}
	created, err := p.cfg.Client.CoreV1().ServiceAccounts(key.namespace).
		CreateToken(ctx, key.account, tokenRequest(pod, request), metav1.CreateOptions{})
	switch {
	case err == nil:
		p.tokens.store(pod.UID, key, created, now)
		return created, nil
	case old == nil:
		return nil, fmt.Errorf("failed to fetch token: %w", err)
	case now.After(old.Status.ExpirationTimestamp.Time):
		return nil, fmt.Errorf("token %v expired and refresh failed: %w", key, err)
	default:
		logr.FromContextOrDiscard(ctx).Error(err, "refresh service account token", "pod", pod.Namespace+"/"+pod.Name)
		return old, nil
	}
}

func tokenRequest(pod *corev1.Pod, request storagev1.TokenRequest) *authenticationv1.TokenRequest {
	audiences := []string{request.Audience}
	if request.Audience == "" {
		audiences = nil
	}
	return &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: audiences, ExpirationSeconds: request.ExpirationSeconds,
		BoundObjectRef: &authenticationv1.BoundObjectReference{
			APIVersion: "v1", Kind: "Pod",
			Name: pod.Name, UID: pod.UID,
		},
	}}
}

// needsRefresh reports whether a token must be replaced.
//
// Upstream: pkg/kubelet/token Manager.requiresRefresh (v1.36).
func needsRefresh(token *authenticationv1.TokenRequest, now time.Time) bool {
	if token.Spec.ExpirationSeconds == nil {
		return false
	}
	expires := token.Status.ExpirationTimestamp.Time
	life := time.Duration(*token.Spec.ExpirationSeconds) * time.Second
	return now.After(expires.Add(tokenAgeMax-life)) || now.After(expires.Add(-life/tokenShareLeft))
}

// store stores a token, and removes expired ones.
func (t tokens) store(pod types.UID, key tokenKey, token *authenticationv1.TokenRequest, now time.Time) {
	for uid, all := range t { // independent of the order
		for k, old := range all {
			if now.After(old.Status.ExpirationTimestamp.Time) {
				delete(all, k)
			}
		}
		if len(all) == 0 {
			delete(t, uid)
		}
	}
	if t[pod] == nil {
		t[pod] = map[tokenKey]*authenticationv1.TokenRequest{}
	}
	t[pod][key] = token
}
