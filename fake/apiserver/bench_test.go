package apiserver_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clientrest "k8s.io/client-go/rest"

	"github.com/volsim/volsim/fake/apiserver"
)

// BenchmarkClaimCreate creates claims in sequence through client-go's clientset over the in-memory
// config.
func BenchmarkClaimCreate(b *testing.B) {
	for _, media := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		b.Run(media, func(b *testing.B) {
			cfg := clientrest.CopyConfig(apiserver.NewConfig(newServer(), direct))
			cfg.ContentType = media
			claims := kubernetes.NewForConfigOrDie(cfg).CoreV1().PersistentVolumeClaims("default")
			claim := newClaim("")
			claim.GenerateName = "a-"
			for b.Loop() {
				if _, err := claims.Create(b.Context(), claim, metav1.CreateOptions{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
