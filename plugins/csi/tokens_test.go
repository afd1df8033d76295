package csi_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/sim/trace"
)

const tokensKey = "csi.storage.k8s.io/serviceAccount.tokens"

// tokenDisk returns a world whose driver requests tokens, with the pod and its service account.
func tokenDisk(t *testing.T, driver storagev1.CSIDriverSpec) (*stub, *disk) {
	t.Helper()
	s, d := stubDisk(t, true, false)
	d.csiDriver(driver)
	ctx := context.Background()
	_, err := d.User.CoreV1().ServiceAccounts("default").Create(ctx,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{})
	d.NoError(err)
	pod := d.pod.DeepCopy()
	pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "image"}}
	d.NoError(d.Server.Add(pod))
	d.Run()
	return s, d
}

// toldTokens parses the tokens that a driver received.
func (w *world) toldTokens(words map[string]string) map[string]authenticationv1.TokenRequestStatus {
	w.Helper()
	told := map[string]authenticationv1.TokenRequestStatus{}
	w.NoError(json.Unmarshal([]byte(words[tokensKey]), &told))
	return told
}

func (w *world) tokensMade() int {
	n := 0
	for _, r := range w.Host.Log().Records() {
		if r.Kind == trace.KindAPI && r.Verb == "create/token" && r.Object == "serviceaccounts/default/robot" {
			n++
		}
	}
	return n
}

func TestTokens(t *testing.T) {
	t.Parallel()
	hour, yes := int64(2*3600), true
	asked := []storagev1.TokenRequest{{Audience: ""}, {Audience: "vault", ExpirationSeconds: &hour}}
	for name, inSecrets := range map[string]*bool{"among the attributes": nil, "among the secrets": &yes} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, d := tokenDisk(t, storagev1.CSIDriverSpec{TokenRequests: asked, ServiceAccountTokenInSecrets: inSecrets})
			d.NoError(d.setUp())
			request := last[*csispec.NodePublishVolumeRequest](s)
			with, without := request.GetVolumeContext(), request.GetSecrets()
			if inSecrets != nil {
				with, without = without, with
			}
			told := d.toldTokens(with)
			now := d.Host.Now()
			testcheck.Equal(d, "expiry", map[string]time.Duration{"": time.Hour, "vault": 2 * time.Hour}, map[string]time.Duration{
				"": told[""].ExpirationTimestamp.Sub(now), "vault": told["vault"].ExpirationTimestamp.Sub(now),
			})
			if told[""].Token == "" || told[""].Token == told["vault"].Token {
				t.Errorf("tokens %v: want one for each audience", told)
			}
			if without[tokensKey] != "" {
				t.Errorf("the tokens are also in the other place")
			}
			testcheck.Equal(d, "attributes", "fast", request.GetVolumeContext()["pool"])
		})
	}
}

func TestNoTokensUnlessRequested(t *testing.T) {
	t.Parallel()
	s, d := tokenDisk(t, storagev1.CSIDriverSpec{})
	d.NoError(d.setUp())
	testcheck.Equal(d, "attributes", map[string]string{"pool": "fast"}, last[*csispec.NodePublishVolumeRequest](s).GetVolumeContext())
	testcheck.Equal(d, "tokens made", 0, d.tokensMade())
}

// TestRecentTokenIsReused until a fifth of its lifetime is left or it is a day old. A token that
// cannot be replaced is used until it expires.
func TestRecentTokenIsReused(t *testing.T) {
	t.Parallel()
	week := int64(7 * 24 * 3600)
	tests := []struct {
		name    string
		seconds *int64
		young   time.Duration // it is kept so long, and not longer
		life    time.Duration
	}{
		{"a fifth of its life is left", nil, 48 * time.Minute, time.Hour},
		{"it is a day old", &week, 24 * time.Hour, 7 * 24 * time.Hour},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, d := tokenDisk(t, storagev1.CSIDriverSpec{TokenRequests: []storagev1.TokenRequest{{
				Audience:          "vault",
				ExpirationSeconds: tt.seconds,
			}}})
			token := func() string {
				d.Helper()
				d.NoError(d.setUp())
				return d.toldTokens(last[*csispec.NodePublishVolumeRequest](s).GetVolumeContext())["vault"].Token
			}
			began := d.Host.Now()
			first := token()
			d.Host.SetTime(began.Add(tt.young))
			testcheck.Equal(d, "token, just young", first, token())
			d.Host.SetTime(began.Add(tt.young + time.Second))
			second := token()
			if second == first {
				t.Error("it is not replaced")
			}
			testcheck.Equal(d, "tokens made", 2, d.tokensMade())

			d.NoError(d.User.CoreV1().ServiceAccounts("default").Delete(context.Background(), "robot", metav1.DeleteOptions{}))
			d.Host.SetTime(d.Host.Now().Add(tt.young + time.Second))
			testcheck.Equal(d, "token that cannot be replaced", second, token())
			d.Host.SetTime(began.Add(tt.young + tt.life + 2*time.Second))
			d.class("SetUp with a token that is good no more", d.setUp(), plugins.Transient)
		})
	}
}

// TestExpiredTokensAreRemoved also when the volume is unpublished: the same pod then gets new ones.
func TestExpiredTokensAreRemoved(t *testing.T) {
	t.Parallel()
	_, d := tokenDisk(t, storagev1.CSIDriverSpec{TokenRequests: []storagev1.TokenRequest{{Audience: "vault"}}})
	for range 2 {
		d.NoError(d.setUp())
		d.NoError(d.tearDown())
	}
	testcheck.Equal(d, "tokens made", 2, d.tokensMade())
}

// TestTokenRequestFails returns a transient error.
func TestTokenRequestFails(t *testing.T) {
	t.Parallel()
	s, d := stubDisk(t, true, false)
	d.csiDriver(storagev1.CSIDriverSpec{TokenRequests: []storagev1.TokenRequest{{Audience: "vault"}}})
	d.class("SetUp", d.setUp(), plugins.Transient)
	testcheck.Equal(d, "requests", 0, len(s.requests))
	testcheck.Equal(d, "disk", nil, d.leaves())
}
