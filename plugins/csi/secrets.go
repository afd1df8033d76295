package csi

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// secrets reads a Secret from the API server; without a reference it returns nil. field is for the
// error's text.
//
// Upstream: pkg/volume/csi getCredentialsFromSecret (v1.36).
func (p *Plugin) secrets(ctx context.Context, field string, ref *corev1.SecretReference) (map[string]string, error) {
	if ref == nil {
		return nil, nil
	}
	secret, err := p.cfg.Client.CoreV1().Secrets(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		err = errorf("failed to find the secret %s in the namespace %s with error: %w", ref.Name, ref.Namespace, err)
		return nil, fmt.Errorf("fetching %s %s/%s failed: %w", field, ref.Namespace, ref.Name, err)
	}
	found := make(map[string]string, len(secret.Data))
	for key, value := range secret.Data {
		found[key] = string(value)
	}
	return found, nil
}
