package flexvolume

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// addSecret adds the entries of the volume's secret, in base64. The type of the secret must be the
// name of the driver. The secret of an inline volume is in the namespace of the pod.
//
// Upstream: pkg/volume/flexvolume addSecretsToOptions, pkg/volume/util GetSecretForPV (v1.36).
func (p *plugin) addSecret(ctx context.Context, options map[string]string, v *volume, podNamespace string) error {
	namespace := cmp.Or(v.secretLocation, podNamespace)
	if v.secretName == "" || namespace == "" {
		return nil
	}
	if p.cfg.Client == nil {
		return errors.New("cannot get kube client")
	}
	secret, err := p.cfg.Client.CoreV1().Secrets(namespace).Get(ctx, v.secretName, metav1.GetOptions{})
	if err == nil && secret.Type != corev1.SecretType(p.name) {
		err = fmt.Errorf("cannot get secret of type %s", p.name)
	}
	if err != nil {
		return fmt.Errorf("couldn't get secret %v/%v err: %w", namespace, v.secretName, err)
	}
	for key, value := range secret.Data {
		options[keySecret+key] = base64.StdEncoding.EncodeToString(value)
	}
	return nil
}
