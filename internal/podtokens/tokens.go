package podtokens

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/sim"
)

// A token is replaced when less than this share of its lifetime is left, or when it is this old.
//
// Upstream: pkg/kubelet/token (v1.36).
const (
	shareLeft = 5 // a fifth
	ageMax    = 24 * time.Hour
)

// A Request says what token a pod gets.
type Request struct {
	Audience string // "": that of the API server
	Seconds  *int64 // lifetime; nil: chosen by the API server
}

// A key identifies a token of a pod.
type key struct {
	namespace, account, pod string
	audience                string
	seconds                 int64 // 0: chosen by the API server
}

// Tokens are the service account tokens of pods. Its methods must be called in tasks of its process.
type Tokens struct {
	process *sim.Process
	client  kubernetes.Interface
	pods    map[types.UID]map[key]*authenticationv1.TokenRequest
}

// New returns an empty cache.
func New(process *sim.Process, client kubernetes.Interface) *Tokens {
	return &Tokens{process: process, client: client, pods: map[types.UID]map[key]*authenticationv1.TokenRequest{}}
}

// Get returns a token of the pod's service account: the cached one if it is recent, or a new one.
//
// Differs: upstream adds a random jitter of up to ten seconds to the time of replacement.
//
// Upstream: pkg/kubelet/token Manager.GetServiceAccountToken (v1.36).
func (t *Tokens) Get(ctx context.Context, pod *corev1.Pod, request Request) (*authenticationv1.TokenRequest, error) {
	k := key{
		namespace: pod.Namespace, account: pod.Spec.ServiceAccountName, pod: pod.Name,
		audience: request.Audience,
	}
	if request.Seconds != nil {
		k.seconds = *request.Seconds
	}
	now := t.process.Now()
	old := t.pods[pod.UID][k]
	if old != nil && !needsRefresh(old, now) {
		return old, nil
	}
	created, err := t.client.CoreV1().ServiceAccounts(k.namespace).
		CreateToken(ctx, k.account, request.of(pod), metav1.CreateOptions{})
	switch {
	case err == nil:
		t.store(pod.UID, k, created, now)
		return created, nil
	case old == nil:
		return nil, fmt.Errorf("failed to fetch token: %w", err)
	case now.After(old.Status.ExpirationTimestamp.Time):
		return nil, fmt.Errorf("token %v expired and refresh failed: %w", k, err)
	default:
		logr.FromContextOrDiscard(ctx).Error(err, "refresh service account token", "pod", pod.Namespace+"/"+pod.Name)
		return old, nil
	}
}

// Forget removes the tokens of a pod.
func (t *Tokens) Forget(pod types.UID) { delete(t.pods, pod) }

// of returns the API object of a request for a pod.
func (r Request) of(pod *corev1.Pod) *authenticationv1.TokenRequest {
	var audiences []string
	if r.Audience != "" {
		audiences = []string{r.Audience}
	}
	return &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: audiences, ExpirationSeconds: r.Seconds,
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
	return now.After(expires.Add(ageMax-life)) || now.After(expires.Add(-life/shareLeft))
}

// store stores a token, and removes expired ones.
func (t *Tokens) store(pod types.UID, k key, token *authenticationv1.TokenRequest, now time.Time) {
	for uid, all := range t.pods { // independent of the order
		for other, old := range all {
			if now.After(old.Status.ExpirationTimestamp.Time) {
				delete(all, other)
			}
		}
		if len(all) == 0 {
			delete(t.pods, uid)
		}
	}
	if t.pods[pod] == nil {
		t.pods[pod] = map[key]*authenticationv1.TokenRequest{}
	}
	t.pods[pod][k] = token
}
