package csi

import (
	"context"
	"encoding/json"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volsim/volsim/internal/podtokens"
)

// tokensKey is the key of the pod's service account tokens in the volume's attributes, or in the
// secrets.
const tokensKey = "csi.storage.k8s.io/serviceAccount.tokens"

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
		token, err := p.tokens.Get(ctx, pod, podtokens.Request{Audience: request.Audience, Seconds: request.ExpirationSeconds})
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
